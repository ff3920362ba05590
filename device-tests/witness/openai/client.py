"""Calls a server as apps do that were written for OpenAI's: what the client of others makes of the answers.

    python client.py http://127.0.0.1:8080/v1 KEY

Fails with an assertion where something is not as an app expects it.
"""

import asyncio
import sys

import openai

MESSAGES = [
    {"role": "system", "content": "Answer shortly."},
    {"role": "user", "content": [{"type": "text", "text": "Hello, what is é😀?"}]},
]
# a prompt that was read in other chunks has sums that differ in their last bits
ANEW = {"cache_prompt": False}


def refused(kind, call, **arguments):
    """The error that a call fails with, which has to be of this kind."""
    try:
        call(**arguments)
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} expected")


def chats(client, model):
    asked = {"model": model, "messages": MESSAGES, "temperature": 0, "max_tokens": 24, "extra_body": ANEW}
    whole = client.chat.completions.create(**asked)
    said = whole.choices[0].message.content
    assert said and whole.choices[0].finish_reason in ("length", "stop"), whole
    assert whole.usage.completion_tokens <= 24
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

    pieces, usage, finish = [], None, None
    with client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}) as stream:
        for event in stream:
            assert event.model == model and event.object == "chat.completion.chunk"
            usage = event.usage or usage
            for choice in event.choices:
                pieces.append(choice.delta.content or "")
                finish = choice.finish_reason or finish
    assert "".join(pieces) == said, (pieces, said)
    assert (usage.prompt_tokens, finish) == (whole.usage.prompt_tokens, whole.choices[0].finish_reason)

    # the answer goes back as the client gives it, and what was read is not read again
    # (those above asked that nothing of them be kept)
    kept = client.chat.completions.create(**{**asked, "extra_body": None})
    turn = [*MESSAGES, kept.choices[0].message, {"role": "user", "content": "And then?"}]
    more = client.chat.completions.create(**{**asked, "messages": turn, "extra_body": None})
    assert more.usage.prompt_tokens_details.cached_tokens > 0, more

    # what a draw's seed is for
    drawn = {**asked, "temperature": 1.5, "seed": 3, "top_p": 0.9, "presence_penalty": 0.5, "stop": ["\n\n\n"]}
    texts = {client.chat.completions.create(**drawn).choices[0].message.content for _ in range(3)}
    assert len(texts) == 1, texts
    other = client.chat.completions.create(**{**drawn, "seed": 4}).choices[0].message.content
    assert other not in texts


def texts(client, model):
    asked = {"model": model, "prompt": "Once upon a time", "temperature": 0, "max_tokens": 16, "extra_body": ANEW}
    whole = client.completions.create(**asked).choices[0].text
    events = list(client.completions.create(**asked, stream=True))
    assert "".join(event.choices[0].text for event in events) == whole
    assert events[-1].choices[0].finish_reason in ("length", "stop")


def errors(client, model):
    asked = {"model": model, "messages": MESSAGES, "max_tokens": 4}
    create = client.chat.completions.create
    error = refused(openai.NotFoundError, create, **{**asked, "model": "gpt-9"})
    assert error.code == "model_not_found"
    error = refused(openai.BadRequestError, create, **asked, extra_body={"temprature": 1})
    assert (error.code, error.param) == ("unknown_parameter", "temprature")
    error = refused(openai.BadRequestError, create, **asked, n=3)
    assert error.param == "n"
    error = refused(openai.BadRequestError, create, **asked, temperature=9)
    assert error.param == "temperature" and "0 to 2" in error.message
    error = refused(openai.BadRequestError, create, **{**asked, "messages": [MESSAGES[0] | {"content": "long " * 20000}]})
    assert error.code == "context_length_exceeded"
    stranger = client.with_options(api_key="another")
    refused(openai.AuthenticationError, stranger.models.list)
    refused(openai.NotFoundError, client.embeddings.create, model=model, input="x")


async def together(url, key, model):
    """Concurrent clients get what each gets alone, and clients that leave midway harm no other."""
    async with openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0) as client:

        async def chat(number, leaves=False):
            asked = [{"role": "user", "content": f"Tell me about the number {number}."}]
            stream = await client.chat.completions.create(
                model=model, messages=asked, temperature=0, max_tokens=20, stream=True, extra_body=ANEW
            )
            pieces = []
            async with stream:
                async for event in stream:
                    pieces.append(event.choices[0].delta.content or "")
                    if leaves and len(pieces) > 2:
                        return None
            return "".join(pieces)

        alone = [await chat(number) for number in range(6)]
        every = [chat(number) for number in range(6)] + [chat(number, leaves=True) for number in range(6)]
        assert (await asyncio.gather(*every))[:6] == alone


def main():
    url, key = sys.argv[1:]
    client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120)
    (model,) = client.models.list().data
    assert client.models.retrieve(model.id).id == model.id
    chats(client, model.id)
    texts(client, model.id)
    errors(client, model.id)
    asyncio.run(together(url, key, model.id))
    print(f"openai {openai.__version__}: as expected")


main()
