"""The client of Clarion's API, blocking (`Client`) and for asyncio (`AsyncClient`); whatever it refuses is a `Problem`.

`operations` says what each request is and how its answer reads, `clients` sends it, and `auth` signs in.
"""

from clarion_client.auth import Bearer, SignIn
from clarion_client.clients import AsyncClient, Client
from clarion_client.operations import rule
from clarion_client.problems import Problem

__all__ = ["AsyncClient", "Bearer", "Client", "Problem", "SignIn", "rule"]
