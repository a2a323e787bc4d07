"""Who is at the other end of a connection, as its certificate says."""

import asyncio


def client_names(transport: asyncio.BaseTransport) -> tuple[str, ...]:
    """Give the common name and the alternative names of a client's certificate.

    None where TLS asks clients for no certificate: the library gives those alone that it has
    verified.
    """
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return ()
    subject = (pair for part in certificate.get("subject", ()) for pair in part)
    common = [value for name, value in subject if name == "commonName"]
    return (*common, *(value for _, value in certificate.get("subjectAltName", ())))
