"""Frame of an old service in Python: it answers the requests of a test with what Redis replies.

In:  {"id", "do": "run", "words"}, {"id", "do": "call", "function", "arguments"}, {"id", "do": "subscribe", "channel"}
Out: {"id", "answer"} or {"id", "error"}, and {"source": channel, "event": "message", "args": [message]}
"""

import json
import os
import sys
import threading

try:
    import redis
except ImportError as missing:
    sys.exit(f"{missing}: run `make tools`")


def connect(**options):
    """Opens a connection of the service, with the options that the document gives."""
    url, name = os.environ["REDIS_URL"], os.environ["CONNECTION_NAME"]
    return redis.Redis.from_url(url, client_name=name, decode_responses=True, **options)


output = threading.Lock()


def say(line):
    with output:
        print(json.dumps(line), flush=True)


def parse(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def subscribe(client, channel):
    """Returns when the subscription is confirmed; a thread then reports its messages."""
    subscription = client.pubsub()
    subscription.subscribe(channel)
    confirmation = subscription.get_message(timeout=None)

    def listen():
        for message in subscription.listen():
            say({"source": channel, "event": "message", "args": [parse(message["data"])]})

    threading.Thread(target=listen, daemon=True).start()
    return confirmation["data"]


def serve(client, functions):
    """Answers requests until the test ends. `client` runs commands, `functions` are the service's own."""

    def answer(request):
        if request["do"] == "subscribe":
            return subscribe(client, request["channel"])
        if request["do"] == "run":
            # Replies as Redis sends them, as in the examples of the documents.
            with client.client() as connection:
                connection.connection.send_command(*request["words"])
                return connection.connection.read_response()
        return functions[request["function"]](*request["arguments"])

    for line in sys.stdin:
        request = json.loads(line)
        try:
            done = {"answer": answer(request)}
        except Exception as error:
            done = {"error": f"{type(error).__name__}: {error}"}
        say({"id": request["id"], **done})
