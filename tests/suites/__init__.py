"""Test suites of others, served by this server: `make suites`, and no part of `make test`."""
