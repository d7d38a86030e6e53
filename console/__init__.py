"""The operator's command line, `clarion`: what a deployment is doing, why it did it, and how to set it right."""
