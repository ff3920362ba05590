"""Many chats at once for minutes, with clients that are killed and requests that are wrong: does the server keep up?

    polychip serve MODEL.gguf --port 8080 --max-active 32 --threads 2 --strict
    target/vendor/openai/venv/bin/python apps/serve/benches/soak.py http://127.0.0.1:8080/v1 --pid PID --seconds 600

Chats of several turns stream through the client `openai`, so many at once all the time. Once a second one of them is killed: its
connection is closed in the middle of an answer. Requests that are malformed in a thousand ways come evenly between. Prints
times of the first token and of gaps between tokens as clients see them, gaps above 10 s, memory and open files of the server,
and what each malformed request got. Fails where one of those got no 4xx, a chat failed, or a gap was above 10 s.
"""

import argparse
import asyncio
import json
import os
import random
import time
import urllib.parse
from collections import Counter

import openai

STALL_S = 10.0
TOPICS = ["rivers", "bridges", "bread", "the moon", "é and 漢字 and 😀", "clocks", "a long journey", "numbers"]
SYSTEM = "You are a careful assistant. Answer in a few sentences, and say so where you do not know something. " * 4


class Figures:
    def __init__(self):
        self.first, self.gaps, self.failed = [], [], []
        self.ended = Counter()
        self.tokens = 0
        self.statuses = Counter()
        self.wrong = []


async def chats(client, model, figures, until, random):
    """One client after another, each a conversation of up to four turns."""
    while time.monotonic() < until:
        messages = [{"role": "system", "content": SYSTEM}]
        for _ in range(random.randint(1, 4)):
            messages.append({"role": "user", "content": f"Tell me about {random.choice(TOPICS)} {random.random():.3f}."})
            text = await turn(client, model, messages, figures, random)
            if text is None or time.monotonic() >= until:
                break
            messages.append({"role": "assistant", "content": text})


async def turn(client, model, messages, figures, random):
    """An answer, or nothing where its client was killed."""
    asked = time.monotonic()
    last, pieces = None, []
    try:
        stream = await client.chat.completions.create(
            model=model, messages=messages, stream=True, max_tokens=random.randint(16, 128), seed=random.getrandbits(31)
        )
        async with stream:
            async for event in stream:
                if not event.choices:
                    continue
                piece = event.choices[0].delta.content
                if piece:
                    now = time.monotonic()
                    (figures.first if last is None else figures.gaps).append(now - (last or asked))
                    last = now
                    pieces.append(piece)
                    figures.tokens += 1
                if event.choices[0].finish_reason:
                    figures.ended[event.choices[0].finish_reason] += 1
        return "".join(pieces)
    except asyncio.CancelledError:
        figures.ended["killed"] += 1
        raise
    except openai.APIError as error:
        figures.failed.append(repr(error))
        return None


async def crowd(client, model, figures, until, count, random):
    """So many clients at once; one of them is killed each second, and another one takes its place."""

    def start():
        return asyncio.create_task(chats(client, model, figures, until, random))

    tasks = [start() for _ in range(count)]
    while time.monotonic() < until:
        await asyncio.sleep(1)
        index = random.randrange(count)
        tasks[index].cancel()
        await asyncio.gather(tasks[index], return_exceptions=True)
        tasks[index] = start()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    figures.failed += [repr(result) for result in results if isinstance(result, Exception)]


def good(model):
    return {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}


def bad_value(random):
    """A value that no field here may have."""
    return random.choice(
        [-1, 1e300, -1e300, 2**64, "x", [], {}, [[]], True, {"a": None}, "\u0000", ["x", 1], -0.5, 1e-320 - 1]
    )


def bad_body(model, random):
    """A body that is wrong, and the header that is sent with it."""
    text = json.dumps(good(model))
    kind = "application/json"
    match random.randrange(14):
        case 0:
            body = text[: random.randrange(1, len(text))].encode()
        case 1:
            field = random.choice(["temperature", "top_p", "max_tokens", "seed", "stop", "n", "min_p", "top_k"])
            value = bad_value(random)
            fits = {"temperature": [True], "seed": [-1], "top_k": [-1], "stop": ["x", [], "\u0000"]}
            if any(value is v or (value == v and type(value) is type(v)) for v in fits.get(field, [])):
                value = {"a": 1}
            body = json.dumps(good(model) | {field: value}).encode()
        case 2:
            body = json.dumps(good(model) | {"messages": bad_value(random)}).encode()
        case 3:
            body = json.dumps(good(model) | {"messages": [{"role": bad_value(random), "content": "x"}]}).encode()
        case 4:
            body = json.dumps(good(model) | {f"x{random.random()}": 1}).encode()
        case 5:
            depth = random.randrange(200, 100_000)
            body = random.choice([b"[" * depth, b'{"messages":' + b"[" * depth + b"]" * depth + b"}", b'{"a":' * depth])
        case 6:
            at = random.randrange(len(text))
            body = text[:at].encode() + random.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf8"]) + text[at:].encode()
        case 7:
            body = text.replace("2", random.choice(["1e999", "-", "0x10", "NaN", "Infinity", "9" * 400, "1.2.3"])).encode()
        case 8:
            body, kind = text.encode(), random.choice(["text/plain", "application/x-www-form-urlencoded", "", "json", "é"])
        case 9:
            body = random.randbytes(random.randrange(0, 4000))
        case 10:
            body = b'{"messages": "' + b"a" * random.randrange(5_000_000, 6_000_000) + b'"}'
        case 11:
            body = json.dumps(good("another model " + "x" * random.randrange(1000))).encode()
        case 12:
            body = json.dumps(good(model) | {"messages": [{"role": "user", "content": "word " * 20_000}]}).encode()
        case 13:
            body = json.dumps(good(model) | {"tools": [{"type": "function"}], "n": random.randrange(2, 9)}).encode()
    return body, kind


def malformed(model, random):
    """The bytes of a request that is wrong, and whether it ends before its end."""
    path = "/v1/chat/completions"

    def post(headers, body=b""):
        return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n".encode() + body

    match random.randrange(20):
        case 0:
            method = random.choice(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "FROB", "TRACE"])
            return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode(), False
        case 1:
            wrong = urllib.parse.quote("/" + "".join(random.choices("aé/.%\\\u0001 ", k=random.randrange(1, 200))))
            return f"GET /v1{wrong}x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode(), False
        case 2:
            return random.choice([b"\x16\x03\x01\x02\x00", b"", b"GET\r\n\r\n", b"\r\n" * 10]) + random.randbytes(200) + b"\r\n\r\n", True
        case 3:
            name = random.choice(["X Y", "X\u0000", "", "é", ":"])
            return f"GET /health HTTP/1.1\r\nHost: localhost\r\n{name}: 1\r\n\r\n".encode(), False
        case 4:
            many = "".join(f"X-{index}: {random.random()}\r\n" for index in range(random.randrange(120, 500)))
            return f"GET /health HTTP/1.1\r\nHost: localhost\r\n{many}\r\n".encode(), False
        case 5:
            length = random.choice(["-1", "x", "1e3", "99999999999999999999999", "1, 2", ""])
            return post(f"Content-Type: application/json\r\nContent-Length: {length}\r\n", b"{}"), False
        case 6:
            # chunks that are cut, or none
            chunks = random.choice([b"ffffffffffffffffff\r\n", b"5\r\n{}", b"2\r\n{}x", b"zz\r\n", b"-1\r\n", b"5\r\nab\r\n"])
            return post("Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", chunks), True
        case 7:
            # a body that is cut: what was sent is half of what was said
            body = json.dumps(good(model)).encode()
            return post(f"Content-Type: application/json\r\nContent-Length: {2 * len(body)}\r\n", body), True
        case 8:
            host = random.choice(["example.com", "evil.localhost.example.com:80", "10.0.0.1", "\u00e9"])
            return f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode(), False
        case 9:
            return b"GET /" + b"a" * random.randrange(70_000, 200_000) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", False
        case _:
            body, kind = bad_body(model, random)
            kind = f"Content-Type: {kind}\r\n" if kind else ""
            return post(f"{kind}Content-Length: {len(body)}\r\n", body), False


async def send(host, port, request, is_cut):
    """What came back, up to its status."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        try:
            writer.write(request)
            await writer.drain()
            if is_cut:
                writer.write_eof()
        except ConnectionError:
            pass  # it was sent away before its end
        try:
            line = await asyncio.wait_for(reader.readline(), 60)
        except ConnectionError:
            return "closed"
        words = line.split(b" ")
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else "closed"
    finally:
        writer.close()


async def wrong_requests(url, model, figures, until, count, random):
    """So many requests that are wrong, evenly until then."""
    address = urllib.parse.urlsplit(url)
    pause = max(0.0, (until - time.monotonic()) / count * 0.95)
    for _ in range(count):
        request, is_cut = malformed(model, random)
        status = await send(address.hostname, address.port, request, is_cut)
        figures.statuses[status] += 1
        if not (isinstance(status, int) and 400 <= status < 500):
            figures.wrong.append((status, request[:300]))
        await asyncio.sleep(pause)


def process(pid):
    """Resident bytes and open files."""
    with open(f"/proc/{pid}/statm") as statm:
        resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(os.listdir(f"/proc/{pid}/fd"))


async def watch(pid, samples, until):
    while pid and time.monotonic() < until:
        samples.append(process(pid))
        await asyncio.sleep(1)


def quantiles(times):
    times = sorted(times)
    at = lambda part: times[min(len(times) - 1, int(part * len(times)))]
    return f"p50 {at(0.5):.3f} s, p99 {at(0.99):.3f} s, most {times[-1]:.3f} s of {len(times)}" if times else "none"


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--pid", type=int, help="the server's process, on this machine")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--chats", type=int, default=32)
    parser.add_argument("--malformed", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    figures, samples = Figures(), []
    async with openai.AsyncOpenAI(base_url=options.url, api_key="none", max_retries=0, timeout=300) as client:
        model = (await client.models.list()).data[0].id
        until = time.monotonic() + options.seconds
        before = process(options.pid) if options.pid else None
        await asyncio.gather(
            crowd(client, model, figures, until, options.chats, random),
            wrong_requests(options.url, model, figures, until, options.malformed, random),
            watch(options.pid, samples, until),
        )
    await asyncio.sleep(2)
    print(f"{options.chats} chats at once for {options.seconds:.0f} s: {figures.tokens} pieces, ended by {dict(figures.ended)}")
    print(f"first token: {quantiles(figures.first)}")
    print(f"gaps: {quantiles(figures.gaps)}")
    stalls = sum(gap > STALL_S for gap in figures.gaps)
    print(f"gaps above {STALL_S:.0f} s: {stalls}")
    print(f"malformed: {sum(figures.statuses.values())}, statuses {dict(figures.statuses)}")
    if options.pid:
        shown = {"before": before, "after a minute": samples[min(60, len(samples) - 1)]}
        shown |= {"in the middle": samples[len(samples) // 2], "at the end": samples[-1], "idle again": process(options.pid)}
        for when, (resident, files) in shown.items():
            print(f"{when}: {resident / 2**20:.1f} MiB resident, {files} open files")
    for words in figures.failed[:10]:
        print("failed:", words)
    for status, request in figures.wrong[:10]:
        print("no 4xx:", status, request)
    if figures.failed or figures.wrong or stalls:
        raise SystemExit(1)


asyncio.run(main())
