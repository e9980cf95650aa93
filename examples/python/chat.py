"""A chat in the terminal: what others write is printed, what you type is sent.

    pip install "python-socketio[asyncio-client]"
    python examples/python/chat.py http://127.0.0.1:7070 "$(parlor token --user bob --name Bob)" lunch

There is no kit for Python. What it takes to miss nothing is here: the place up to which a conversation is known, shown in
the handshake as `resume`.
"""

import asyncio
import sys

import aiohttp
import socketio

if len(sys.argv) != 4:
    sys.exit("usage: chat.py <url> <token> <conversation>")
url, token, conversation = sys.argv[1:]

# The asynchronous client, because the other one handles each event on a thread of its own, in no order.
client = socketio.AsyncClient()
known = {"seq": 0, "rev": 0}
joined = False
held = []  # what comes before it is its turn; None while nothing lies before it


def handshake():
    """Asked at every connect, so that the next one goes on where the last one ended."""
    return {"token": token, "resume": {conversation: known} if joined else {}}


def say(text):
    print(text, flush=True)


# Behind its body an event may carry a text of Socket.IO's own: that is what `*_` is for.
@client.on("message:new")
def new(message, *_):
    if held is not None:
        held.append(message)
    elif message["seq"] > known["seq"]:
        say(f"{message['senderId']}: {message['content']}")
        known.update(seq=message["seq"], rev=max(known["rev"], message["rev"]))


@client.on("message:edited")
def edited(message, *_):
    say(f"{message['senderId']}: {message['content']} (edited)")
    known["rev"] = max(known["rev"], message["rev"])


@client.on("conversation:resumed")
async def resumed(state, *_):
    """What was missed has come. If it was a lot, other messages are in the history, and other changes are asked for."""
    while state["hasMore"]:
        await read_on()
        place = {"conversationId": conversation, "afterSeq": known["seq"], "afterRev": state["rev"]}
        state = await ask("conversation:join", place)
        for message in state["missed"]:
            (new if message["seq"] > known["seq"] else edited)(message)
    go_on([])
    known["rev"] = max(known["rev"], state["rev"])


async def read_on():
    """Shows what follows the last message that is known, before what comes meanwhile."""
    global held
    held, messages, more = [], [], True
    while more:
        after = messages[-1]["seq"] if messages else known["seq"]
        page = await ask("history", {"conversationId": conversation, "after": after, "limit": 100})
        messages += page["messages"]
        more = page["hasMore"]
    go_on(messages)


def go_on(messages):
    """Shows these, then what was held."""
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
    say(f"* over: {body['reason']}")


@client.on("disconnect")
def lost(*_):
    say("* disconnected")


async def ask(event, body):
    """An event and its acknowledgement."""
    reply = await client.call(event, body, timeout=20)
    if not reply["ok"]:
        raise RuntimeError(f"{reply['error']['message']} ({reply['error']['code']})")
    return reply


async def enter():
    """Membership is a matter of HTTP: makes the conversation, or joins it if somebody else did."""
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        group = {"id": conversation, "kind": "group", "open": True}
        made = await http.post(f"{url}/v1/conversations", json=group)
        if made.status == 409:
            await http.post(f"{url}/v1/conversations/{conversation}/join", json={})


async def main():
    global joined
    await client.connect(url, auth=handshake, transports=["websocket"], wait_timeout=20)
    await enter()
    page = await ask("history", {"conversationId": conversation, "limit": 10})
    last = page["messages"][-1]["seq"] if page["messages"] else 0
    reply = await ask("conversation:join", {"conversationId": conversation, "afterSeq": last})
    go_on(page["messages"] + reply["missed"])
    known["rev"] = max(known["rev"], reply["rev"])
    joined = True
    say(f"* in {conversation}, {reply['unread']} unread")
    while line := await asyncio.to_thread(sys.stdin.readline):
        if content := line.strip():
            try:
                await ask("message:send", {"conversationId": conversation, "content": content})
            except (RuntimeError, socketio.exceptions.SocketIOError) as refused:
                say(f"* not sent: {refused}")
    await client.disconnect()


asyncio.run(main())
