"""The interactive page at `/docs`: Swagger UI, which powertools brings, in one document that loads the description.

https://swagger.io/docs/open-source-tools/swagger-ui/usage/configuration/
"""

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

import aws_lambda_powertools.event_handler.openapi.swagger_ui as swagger

_FOLDER = Path(swagger.__file__).parent
_OPTIONS = {
    "dom_id": "#swagger-ui",
    "url": "/openapi.json",
    "deepLinking": True,
    "tryItOutEnabled": True,
    "defaultModelsExpandDepth": 0,
}
_NARROW = """
body { margin: 0; }
.swagger-ui .opblock-section-header { flex-wrap: wrap; }
.swagger-ui .response-col_links { display: none; }
"""
"""So that nothing is wider than a phone's screen. No answer has links of OpenAPI's."""


def html(title: str) -> str:
    style = (_FOLDER / "swagger-ui.min.css").read_text() + _NARROW
    scripts = "\n".join(f"<script>{script}</script>" for script in _scripts())
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="swagger-ui"></div>
{scripts}
</body>
</html>
"""


def content_security_policy() -> str:
    """These scripts alone run, and they reach this API alone. Swagger UI styles elements one by one.

    https://www.w3.org/TR/CSP3/
    """
    hashes = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in _scripts())
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {hashes}",
            "style-src 'unsafe-inline'",
            "img-src data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


@cache
def _scripts() -> tuple[str, str]:
    return (_FOLDER / "swagger-ui-bundle.min.js").read_text(), f"SwaggerUIBundle({json.dumps(_OPTIONS)})"
