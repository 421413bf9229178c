"""The gRPC way to the server: a party's client dials out and never listens."""
