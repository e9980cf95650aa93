"""A service of online statuses in Redis, which is about to use Parlor for its clients: it calls the methods of its
document at Parlor, whose services it reads by reflection."""

import sys

from service import connect, serve

try:
    import grpc
    from google.protobuf import descriptor_pool, json_format, message_factory
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
except ImportError as missing:
    sys.exit(f"{missing}: run `make tools`")

ONLINE_SECONDS = 30
OFFLINE_SECONDS = 86_400
SERVICE = "parlor.v1.UserStatusService"
PATIENCE = 30

client = connect(db=0, max_connections=10)


def key(user):
    return f"user:status:{user}"


def status_of(value):
    """Any other value, and a missing key, means offline."""
    return "online" if value == "online" else "offline"


def heartbeat(user):
    """Extends the TTL only while the value is `online`."""
    if client.get(key(user)) != "online":
        return False
    return client.expire(key(user), ONLINE_SECONDS)


class Parlor:
    """Methods of Parlor, by their names in the document."""

    def open(self, address, token):
        self.channel = grpc.insecure_channel(address)
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(self.channel))
        self.methods = pool.FindServiceByName(SERVICE).methods_by_name
        self.metadata = [("authorization", f"Bearer {token}")]

    def call(self, method, fields):
        types = self.methods[method]
        request = message_factory.GetMessageClass(types.input_type)
        reply = message_factory.GetMessageClass(types.output_type)
        call = self.channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=reply.FromString,
        )
        message = json_format.ParseDict(fields, request())
        answer = call(message, metadata=self.metadata, timeout=PATIENCE)
        return json_format.MessageToDict(answer, preserving_proto_field_name=True)


parlor = Parlor()

functions = {
    "setOnline": lambda user: client.set(key(user), "online", ex=ONLINE_SECONDS),
    "setOffline": lambda user: client.set(key(user), "offline", ex=OFFLINE_SECONDS),
    "status": lambda user: status_of(client.get(key(user))),
    "statuses": lambda users: [status_of(value) for value in client.mget([key(user) for user in users])],
    "heartbeat": heartbeat,
    "openParlor": parlor.open,
    "callParlor": parlor.call,
}

serve(client, functions)
