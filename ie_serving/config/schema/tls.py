"""The settings of TLS: the ports' certificates, and the authorities they trust."""

from ie_serving.config.schema.setting import Setting
from ie_serving.config.values import words

TLS: tuple[Setting, ...] = (
    Setting(
        place="server.tls_certificate",
        parse=words.text,
        form="FILE",
        meaning="PEM file with the server's certificate, then those between it and the root; both"
        " ports are then encrypted. The files are read again when they change",
        example="/etc/ie_serving/tls/tls.crt",
        flag="tls_certificate",
        variables=("TLS_CERTIFICATE",),
    ),
    Setting(
        place="server.tls_key",
        parse=words.text,
        form="FILE",
        meaning="PEM file with the certificate's key, without a password",
        example="/etc/ie_serving/tls/tls.key",
        flag="tls_key",
        variables=("TLS_KEY",),
    ),
    Setting(
        place="server.tls_client_ca",
        parse=words.text,
        form="FILE",
        meaning="PEM file with the authorities of clients: a client without a certificate of theirs"
        " is refused",
        example="/etc/ie_serving/tls/clients.crt",
        flag="tls_client_ca",
        variables=("TLS_CLIENT_CA",),
    ),
    Setting(
        place="server.tls_client_crl",
        parse=words.text,
        form="FILE",
        meaning="PEM file with the revoked certificates of each of these authorities",
        example="/etc/ie_serving/tls/clients.crl",
        flag="tls_client_crl",
        variables=("TLS_CLIENT_CRL",),
    ),
    Setting(
        place="server.ssl_config_file",
        parse=words.text,
        form="FILE",
        meaning="TensorFlow Serving's SSLConfig in text form, instead of the files before",
        example="/etc/ie_serving/ssl.config",
        flag="ssl_config_file",
        tfs="ssl_config_file",
    ),
    # Kubernetes' probes have no certificate of their own.
    Setting(
        place="server.tls_ports",
        parse=words.one_of("both", "grpc", "rest"),
        form="both|grpc|rest",
        meaning="which port is encrypted; the other one is plain",
        example="grpc",
        flag="tls_ports",
        variables=("TLS_PORTS",),
    ),
)
