"""A client for this server, TensorFlow Serving, and servers of the Open Inference Protocol.

    with Client("grpc://localhost:9000") as client:
        outputs = client.predict("digits", {"image": rows})

Of other packages it imports numpy, grpc, google.protobuf and httpx alone.
"""

from ie_serving.client.calls import VersionStatus as VersionStatus
from ie_serving.client.clients import AsyncClient as AsyncClient
from ie_serving.client.clients import Client as Client
from ie_serving.client.failures import ClientError as ClientError
from ie_serving.client.failures import Unavailable as Unavailable
from ie_serving.client.transports import Connection as Connection
from ie_serving.core.values.codes import Code as Code
