"""Sockets of python-socketio, controlled by a test with one JSON command per line; see driver.mjs."""

import asyncio
import json
import sys

import socketio

PATIENCE = 20
sockets = {}


def say(it):
    sys.stdout.write(json.dumps(it) + "\n")
    sys.stdout.flush()


class Refused(Exception):
    pass


async def open_(socket, url, auth, options=None):
    client = socketio.AsyncClient(reconnection=False)
    sockets[socket] = client
    refused = []

    # The library passes only the body to a handler.
    async def record_event(event, body):
        say({"source": socket, "event": event, "args": [body]})

    client.on("*", record_event)
    client.on("disconnect", lambda reason=None: say({"source": socket, "event": "disconnect", "args": [reason]}))
    client.on("connect_error", lambda error=None: refused.append(error))
    try:
        await client.connect(url, auth=auth, wait_timeout=PATIENCE, **(options or {}))
    except socketio.exceptions.ConnectionError as error:
        raise Refused(refused[0] if refused else {"message": str(error)}) from error
    return {"sid": client.get_sid()}


async def emit(socket, event, body):
    return await sockets[socket].call(event, body, timeout=PATIENCE)


async def close(socket):
    await sockets[socket].disconnect()


async def drop(socket):
    client = sockets[socket].eio
    if client.current_transport == "websocket":
        client.ws._response.connection.transport.abort()
    else:
        await client.http.close()


ACTIONS = {"open": open_, "emit": emit, "close": close, "drop": drop}


async def act(order):
    number, action = order.pop("id"), order.pop("do")
    try:
        say({"id": number, "answer": await ACTIONS[action](**order)})
    except Refused as error:
        say({"id": number, "error": error.args[0]})
    except Exception as error:  # the test reports it
        say({"id": number, "error": {"message": repr(error)}})


async def main():
    reader = asyncio.StreamReader(limit=2**24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    under_way = set()
    while line := await reader.readline():
        task = asyncio.create_task(act(json.loads(line)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)


asyncio.run(main())
