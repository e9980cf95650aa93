"""Calls the methods of parlor.v1 like a service in Python. The services are read by reflection.

One argument: JSON with `address`, the expected `services` and `methods`, and `tokens` of a service, of alice and bob, who
are in the conversation `lunch`, of slow, who is not, and of carol, who has no session.
"""

import json
import sys

try:
    import grpc
    from google.protobuf import descriptor_pool, message_factory
    from google.rpc import error_details_pb2
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
    from grpc_status import rpc_status
except ImportError as missing:
    sys.exit(f"{missing}: run `make tools`")

TOLD = json.loads(sys.argv[1])
PATIENCE = 30


class Service:
    """The methods of a service as functions, found by reflection."""

    def __init__(self, channel, pool, name):
        self.pool = pool
        self.descriptor = pool.FindServiceByName(name)
        self.methods = {}
        for method in self.descriptor.methods:
            request = message_factory.GetMessageClass(method.input_type)
            reply = message_factory.GetMessageClass(method.output_type)
            kind = channel.unary_stream if method.server_streaming else channel.unary_unary
            call = kind(
                f"/{name}/{method.name}",
                request_serializer=request.SerializeToString,
                response_deserializer=reply.FromString,
            )
            self.methods[method.name] = (request, call)

    def __call__(self, user, method, **fields):
        request, call = self.methods[method]
        metadata = [("authorization", f"Bearer {TOLD['tokens'][user]}")] if user else []
        return call(request(**fields), metadata=metadata, timeout=PATIENCE)


def refused(status, code, call):
    """Fails unless the call is rejected with this status, and with this code in the details and the trailer."""
    try:
        answer = call()
        if isinstance(answer, grpc.Call):
            next(answer)
    except grpc.RpcError as error:
        assert error.code() == status, f"{code}: {error}"
        details = rpc_status.from_call(error).details
        info = error_details_pb2.ErrorInfo()
        assert details[0].Unpack(info), details
        assert (info.reason, info.domain) == (code, "parlor"), info
        assert dict(error.trailing_metadata())["parlor-code"] == code, error.trailing_metadata()
        return
    raise AssertionError(f"not rejected: {code}")


def statuses(parlor):
    kinds = parlor.pool.FindMessageTypeByName("parlor.v1.UserStatus").enum_types_by_name["Status"].values_by_name
    assert {"ONLINE", "AWAY", "BUSY", "OFFLINE"} < set(kinds), set(kinds)
    return {name: value.number for name, value in kinds.items()}


def presence(parlor, kinds):
    online = parlor("alice", "SetUserStatus", status=kinds["ONLINE"], device_id="laptop")
    assert (online.user_id, online.status) == ("alice", kinds["ONLINE"]), online
    assert not online.degraded and online.version > 0, online
    beat = parlor("alice", "SendHeartbeat", device_id="laptop")
    assert beat.next_heartbeat_in_seconds == 20, beat
    assert parlor("alice", "GetUserStatus") == parlor("bob", "GetUserStatus", user_id="alice")

    users = parlor("bob", "GetMultipleUserStatus", user_ids=["nobody", "alice"]).users
    assert [user.user_id for user in users] == ["nobody", "alice"], users
    assert [user.status for user in users] == [kinds["OFFLINE"], kinds["ONLINE"]], users
    assert not users[0].HasField("last_seen"), users


def subscription(parlor, kinds):
    updates = parlor("bob", "SubscribeStatusUpdates", watch_user_ids=["bob", "alice"])
    first = next(updates)
    assert first.snapshot, first
    seen = [(user.user_id, user.status) for user in first.users]
    assert seen == [("bob", kinds["OFFLINE"]), ("alice", kinds["ONLINE"])], first
    version = first.users[1].version
    for name in ["BUSY", "AWAY", "OFFLINE", "ONLINE"]:
        # The service acts for alice.
        changed = parlor("service", "SetUserStatus", user_id="alice", status=kinds[name])
        update = next(updates)
        assert not update.snapshot and list(update.users) == [changed], (update, changed)
        assert changed.status == kinds[name] and changed.version > version, changed
        assert name != "OFFLINE" or changed.last_seen.endswith("Z"), changed
        version = changed.version
    updates.cancel()


def refusals(parlor, kinds):
    code = grpc.StatusCode
    refused(code.UNAUTHENTICATED, "token_missing", lambda: parlor(None, "GetUserStatus", user_id="alice"))
    refused(code.UNAUTHENTICATED, "token_missing", lambda: parlor(None, "SubscribeStatusUpdates"))
    refused(code.PERMISSION_DENIED, "forbidden", lambda: parlor("bob", "SendHeartbeat", user_id="alice"))
    refused(code.INVALID_ARGUMENT, "user_required", lambda: parlor("service", "SetUserStatus", status=1))
    refused(code.INVALID_ARGUMENT, "invalid_request", lambda: parlor("alice", "SetUserStatus"))
    refused(code.INVALID_ARGUMENT, "invalid_id", lambda: parlor("alice", "GetUserStatus", user_id="a b"))
    many = [f"user-{number}" for number in range(1001)]
    refused(code.INVALID_ARGUMENT, "too_many", lambda: parlor("alice", "GetMultipleUserStatus", user_ids=many))
    refused(code.INVALID_ARGUMENT, "too_many", lambda: parlor("alice", "SubscribeStatusUpdates", watch_user_ids=many))


def limits(parlor):
    """Two requests use up a limit of two; the third response has a retry delay."""
    gcra = parlor.methods["Check"][0].DESCRIPTOR.enum_types_by_name["Algorithm"].values_by_name["GCRA"].number
    asked = {"key": "export:python", "algorithm": gcra, "limit": 2, "window_ms": 600_000}
    for remaining in [1, 0]:
        answer = parlor("service", "Check", **asked)
        assert (answer.allowed, answer.remaining) == (True, remaining), answer
        assert not answer.HasField("retry_after_ms"), answer
    answer = parlor("service", "Check", **asked)
    assert not answer.allowed and 0 < answer.retry_after_ms <= 300_000, answer
    refused(grpc.StatusCode.PERMISSION_DENIED, "forbidden", lambda: parlor("alice", "Check", **asked))


def chat(parlor):
    """A service sends a message as alice; it is unread for bob until bob marks it as read."""
    lunch = {"conversation_id": "lunch"}
    noon = {**lunch, "content": "Noon?", "metadata_json": '{"mentions":["bob"]}', "client_id": "p1"}
    sent = parlor("service", "SendMessage", user_id="alice", **noon)
    assert (sent.message.seq, sent.message.sender_id, sent.repeated_send) == (1, "alice", False), sent
    assert json.loads(sent.message.metadata_json) == {"mentions": ["bob"]}, sent
    assert sent.message.created_at.endswith("Z") and not sent.message.HasField("edited_at"), sent
    again = parlor("alice", "SendMessage", **noon)
    assert again.message == sent.message and again.repeated_send, again
    second = parlor("alice", "SendMessage", content="One?", **lunch).message

    page = parlor("bob", "ListMessages", limit=1, **lunch)
    assert (list(page.messages), page.has_more) == ([second], True), page
    page = parlor("service", "ListMessages", user_id="bob", before=2, **lunch)
    assert (list(page.messages), page.has_more) == ([sent.message], False), page

    unread = parlor("bob", "GetUnread")
    assert (unread.total, unread.mentions) == (2, 1), unread
    assert [(it.conversation_id, it.count) for it in unread.conversations] == [("lunch", 2)], unread
    read = parlor("bob", "MarkRead", seq=1, **lunch)
    assert (read.unread, read.total) == (1, 1), read
    read = parlor("service", "MarkRead", user_id="bob", **lunch)
    assert (read.unread, read.total) == (0, 0), read
    assert not parlor("bob", "GetUnread").conversations

    assert parlor("service", "IsMember", user_id="bob", **lunch).is_member
    assert not parlor("slow", "IsMember", **lunch).is_member
    code = grpc.StatusCode
    refused(code.PERMISSION_DENIED, "not_a_member", lambda: parlor("slow", "SendMessage", content="!", **lunch))
    refused(code.PERMISSION_DENIED, "not_a_member", lambda: parlor("slow", "ListMessages", **lunch))
    refused(code.PERMISSION_DENIED, "not_a_member", lambda: parlor("slow", "MarkRead", **lunch))
    refused(code.PERMISSION_DENIED, "not_a_member", lambda: parlor("slow", "IsMember", user_id="bob", **lunch))
    refused(code.PERMISSION_DENIED, "forbidden", lambda: parlor("bob", "GetUnread", user_id="alice"))
    refused(code.INVALID_ARGUMENT, "user_required", lambda: parlor("service", "GetUnread"))
    refused(code.INVALID_ARGUMENT, "invalid_request", lambda: parlor("bob", "SendMessage", **lunch))
    refused(code.INVALID_ARGUMENT, "invalid_request", lambda: parlor("bob", "ListMessages", limit=101, **lunch))
    refused(code.UNAUTHENTICATED, "session_expired", lambda: parlor("carol", "GetUnread"))


def sessions(parlor):
    alice = parlor("service", "Validate", user_id="alice")
    assert alice.valid and alice.session.user_id == "alice", alice
    login = alice.session.DESCRIPTOR.enum_types_by_name["Status"].values_by_name["LOGIN"].number
    assert alice.session.status == login and alice.session.login_time.endswith("Z"), alice
    carol = parlor("service", "Validate", user_id="carol")
    assert not carol.valid and not carol.HasField("session"), carol
    refused(grpc.StatusCode.PERMISSION_DENIED, "forbidden", lambda: parlor("alice", "Validate", user_id="alice"))
    refused(grpc.StatusCode.INVALID_ARGUMENT, "invalid_id", lambda: parlor("service", "Validate"))


def health(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    for service in ["", *TOLD["services"]]:
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE)
        assert answer.status == serving, answer
    watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
    while next(watch).status != serving:
        pass
    watch.cancel()
    unknown = stub.Watch(health_pb2.HealthCheckRequest(service="nobody"), timeout=PATIENCE)
    assert next(unknown).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    unknown.cancel()
    refused(
        grpc.StatusCode.NOT_FOUND,
        "not_found",
        lambda: stub.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=PATIENCE),
    )


def main():
    with grpc.insecure_channel(TOLD["address"]) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        found = set(database.get_services())
        assert {*TOLD["services"], "grpc.health.v1.Health"} <= found, found
        pool = descriptor_pool.DescriptorPool(database)
        services = {name: Service(channel, pool, name) for name in TOLD["services"]}
        methods = sorted(f"{name}/{method}" for name, service in services.items() for method in service.methods)
        assert methods == sorted(TOLD["methods"]), methods
        parlor = services["parlor.v1.UserStatusService"]
        kinds = statuses(parlor)
        presence(parlor, kinds)
        subscription(parlor, kinds)
        refusals(parlor, kinds)
        limits(services["parlor.v1.LimitService"])
        chat(services["parlor.v1.ChatService"])
        sessions(services["parlor.v1.SessionService"])
        health(channel)


main()
