"""Calls a server as apps do that were written for OpenAI's: what the client of others makes of the answers.

    python client.py http://127.0.0.1:8080/v1 KEY [CALLS]

CALLS is the number of calls of a tool, by default 8.

Fails with an assertion where something is not as an app expects it.
"""

import asyncio
import json
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
    # what has no effect is ignored
    create(**asked, store=True, reasoning_effort="low", extra_body={"temprature": 1, "repeat_penalty": 1.1, "top_k": -1})
    error = refused(openai.BadRequestError, create, **asked, n=33)
    assert error.param == "n"
    error = refused(openai.BadRequestError, create, **asked, temperature=9)
    assert error.param == "temperature" and "0 to 2" in error.message
    error = refused(openai.BadRequestError, create, **{**asked, "messages": [MESSAGES[0] | {"content": "long " * 20000}]})
    assert error.code == "context_length_exceeded"
    stranger = client.with_options(api_key="another")
    refused(openai.AuthenticationError, stranger.models.list)


TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": [1, 2, 3]}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    },
}


def add(arguments):
    """Runs a call, whose arguments must be valid."""
    given = json.loads(arguments)
    assert set(given) == {"a", "b"} and 0 <= given["a"] <= 99 and given["b"] in (1, 2, 3), given
    return given["a"] + given["b"]


def tools(client, model, count):
    """Streamed calls, each accepted and run."""
    asked = {"model": model, "messages": MESSAGES, "tools": [TOOL], "max_tokens": 200, "temperature": 1.5}
    for seed in range(count):
        choice = "required" if seed % 2 else {"type": "function", "function": {"name": "add"}}
        with client.chat.completions.stream(
            **asked, tool_choice=choice, parallel_tool_calls=False, seed=seed
        ) as stream:
            for _ in stream:
                pass
            said = stream.get_final_completion().choices[0]
        assert said.finish_reason == "tool_calls" and len(said.message.tool_calls) == 1, said
        add(said.message.tool_calls[0].function.arguments)

    # the result goes back
    whole = client.chat.completions.create(**asked, tool_choice="required", parallel_tool_calls=False, seed=1)
    call = whole.choices[0].message.tool_calls[0]
    result = {"role": "tool", "tool_call_id": call.id, "content": str(add(call.function.arguments))}
    turn = [*MESSAGES, whole.choices[0].message, result]
    for choice in ("auto", "none"):
        client.chat.completions.create(**{**asked, "messages": turn, "tool_choice": choice, "max_tokens": 20})


def extras(client, model):
    """Several answers, log-probabilities, biases, several prompts, echoes."""
    asked = {"model": model, "messages": MESSAGES, "max_tokens": 8}
    drawn = client.chat.completions.create(**asked, n=3, logprobs=True, top_logprobs=2)
    assert [choice.index for choice in drawn.choices] == [0, 1, 2]
    for choice in drawn.choices:
        assert all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in choice.logprobs.content)
    text = client.completions.create(model=model, prompt=["Once", "Twice"], max_tokens=3, echo=True, logprobs=1)
    assert [choice.text.startswith(prompt) for choice, prompt in zip(text.choices, ("Once", "Twice"))] == [True, True]
    assert text.choices[0].logprobs.token_logprobs[0] is None
    assert client.completions.create(model=model, prompt="Once", temperature=0).usage.completion_tokens <= 16


def embeddings(client, model):
    texts = ["A red bicycle", "A crimson bike", "The theory of numbers"]
    found = [one.embedding for one in client.embeddings.create(model=model, input=texts).data]
    floats = client.embeddings.create(model=model, input=texts[0], encoding_format="float").data[0].embedding
    assert all(abs(one - two) < 1e-5 for one, two in zip(found[0], floats))
    assert all(abs(sum(number * number for number in one) - 1) < 1e-3 for one in found)


def responses(client, model):
    asked = {"model": model, "input": "Hello", "max_output_tokens": 12, "temperature": 0, "extra_body": ANEW}
    whole = client.responses.create(**asked)
    assert whole.output_text and whole.status in ("completed", "incomplete"), whole
    with client.responses.stream(**asked) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response() if whole.status == "completed" else None
    assert "".join(pieces) == whole.output_text, (pieces, whole)
    assert final is None or final.output_text == whole.output_text
    tool = {"type": "function", **TOOL["function"], "strict": True}
    called = client.responses.create(
        model=model, input="Add 2 and 3.", tools=[tool], tool_choice="required", parallel_tool_calls=False, max_output_tokens=200
    )
    (call,) = called.output
    result = {"type": "function_call_output", "call_id": call.call_id, "output": str(add(call.arguments))}
    turn = [{"role": "user", "content": "Add 2 and 3."}, call.model_dump(exclude_none=True), result]
    client.responses.create(model=model, input=turn, tools=[tool], tool_choice="none", max_output_tokens=8)


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
    url, key, *count = sys.argv[1:]
    client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=120)
    model = client.models.list().data[0]
    assert client.models.retrieve(model.id).id == model.id
    chats(client, model.id)
    texts(client, model.id)
    errors(client, model.id)
    tools(client, model.id, int(count[0]) if count else 8)
    extras(client, model.id)
    embeddings(client, model.id)
    responses(client, model.id)
    asyncio.run(together(url, key, model.id))
    print(f"openai {openai.__version__}: as expected")


main()
