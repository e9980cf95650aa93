"""A chat in the terminal: prints the messages of others and sends the lines that you type.

    pip install "python-socketio[asyncio-client]"
    python examples/python/chat.py http://127.0.0.1:7070 "$(parlor token --user bob --name Bob)" lunch

There is no Parlor client for Python. To receive every message after a reconnect, this program keeps the position that it
has reached in the conversation (`known`) and sends it as `resume` in the handshake.
"""

import asyncio
import sys

import aiohttp
import socketio

if len(sys.argv) != 4:
    sys.exit("usage: chat.py <url> <token> <conversation>")
url, token, conversation = sys.argv[1:]

# The asynchronous client, because the synchronous one handles each event in its own thread, in no particular order.
client = socketio.AsyncClient()
known = {"seq": 0, "rev": 0}
joined = False
held = []  # messages that wait until earlier ones are shown; None while messages are shown at once


def handshake():
    """Called for every connect, so that each one resumes at the latest position."""
    return {"token": token, "resume": {conversation: known} if joined else {}}


def say(text):
    print(text, flush=True)


# After the body, an event can carry the recovery offset of Socket.IO: `*_` accepts it.
@client.on("message:new")
def new(message, *_):
    if held is not None:
        held.append(message)
    elif message["seq"] > known["seq"]:
        say(f"{message['senderId']}: {message['content']}")
        known.update(seq=message["seq"], rev=max(known["rev"], message["rev"]))
        if joined:
            # In the background, because the handlers of messages must not await anything.
            client.start_background_task(mark_as_read)


async def mark_as_read():
    """Marks all messages as read, also on the other devices of the user."""
    if client.connected:
        await client.emit("message:read", {"conversationId": conversation})


@client.on("message:edited")
def edited(message, *_):
    say(f"{message['senderId']}: {message['content']} (edited)")
    known["rev"] = max(known["rev"], message["rev"])


@client.on("conversation:resumed")
async def resumed(state, *_):
    """The missed messages have arrived. If there are more, reads messages from the history and requests further changes."""
    while state["hasMore"]:
        await read_on()
        place = {"conversationId": conversation, "afterSeq": known["seq"], "afterRev": state["rev"]}
        state = await ask("conversation:join", place)
        for message in state["missed"]:
            (new if message["seq"] > known["seq"] else edited)(message)
    go_on([])
    known["rev"] = max(known["rev"], state["rev"])


async def read_on():
    """Shows the history after the last known message, before the messages that arrive meanwhile."""
    global held
    held, messages, more = [], [], True
    while more:
        after = messages[-1]["seq"] if messages else known["seq"]
        page = await ask("history", {"conversationId": conversation, "after": after, "limit": 100})
        messages += page["messages"]
        more = page["hasMore"]
    go_on(messages)


def go_on(messages):
    """Shows these messages, then the held ones."""
    global held
    waiting, held = held or [], None
    for message in messages + waiting:
        new(message)


@client.on("typing")
def typing(change, *_):
    if change["typing"]:
        say(f"* {change.get('username') or change['userId']} is typing")


@client.on("session:closed")
def closed(body, *_):
    say(f"* session closed: {body['reason']}")


@client.on("disconnect")
def lost(*_):
    say("* disconnected")


class Rejected(Exception):
    """The server rejected a request."""


async def ask(event, body):
    """Emits an event and returns its acknowledgement."""
    reply = await client.call(event, body, timeout=20)
    if not reply["ok"]:
        raise Rejected(f"{reply['error']['message']} ({reply['error']['code']})")
    return reply


async def become_member():
    """Creates the conversation, or becomes a member if it exists already. Membership is changed over HTTP."""
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        group = {"id": conversation, "kind": "group", "open": True}
        response = await http.post(f"{url}/v1/conversations", json=group)
        if response.status == 409:
            response = await http.post(f"{url}/v1/conversations/{conversation}/join", json={})
        if not response.ok:
            problem = await response.json(content_type=None)
            raise Rejected(f"{problem['detail']} ({problem['code']})")


async def enter():
    """Shows the last messages, and joins the conversation after them."""
    global joined
    await become_member()
    page = await ask("history", {"conversationId": conversation, "limit": 10})
    last = page["messages"][-1]["seq"] if page["messages"] else 0
    reply = await ask("conversation:join", {"conversationId": conversation, "afterSeq": last})
    go_on(page["messages"] + reply["missed"])
    known["rev"] = max(known["rev"], reply["rev"])
    joined = True
    say(f"* in {conversation}, {reply['unread']} unread")
    await mark_as_read()


async def main():
    await client.connect(url, auth=handshake, transports=["websocket"], wait_timeout=20)
    try:
        await enter()
    except Rejected as error:
        await client.disconnect()
        sys.exit(f"* cannot enter {conversation}: {error}")
    while line := await asyncio.to_thread(sys.stdin.readline):
        if content := line.strip():
            try:
                await ask("message:send", {"conversationId": conversation, "content": content})
            except (Rejected, socketio.exceptions.SocketIOError) as error:
                say(f"* not sent: {error}")
    await client.disconnect()


asyncio.run(main())
