"""How fast the server is: against the engine alone, other servers, and its own earlier self."""
