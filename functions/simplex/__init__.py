"""SimpleX's worker: what follows from pushes and from commands of agents, apart from the NTF server."""
