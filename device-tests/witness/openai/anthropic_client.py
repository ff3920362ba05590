"""Calls a server as apps do that were written for Anthropic's: what the client of others makes of the answers.

    python anthropic_client.py http://127.0.0.1:8080 KEY

Fails with an assertion where something is not as an app expects it.
"""

import sys

import anthropic

TOOL = {
    "name": "add",
    "description": "Adds two numbers.",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": [1, 2, 3]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
}
MESSAGES = [{"role": "user", "content": "Hello, what is é😀?"}]


def refused(kind, **arguments):
    """The error that a request fails with, which has to be of this kind."""
    call = arguments.pop("call")
    try:
        call(**arguments)
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} expected")


def main():
    url, key = sys.argv[1:]
    client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=120)
    model = "claude"
    asked = {"model": model, "messages": MESSAGES, "max_tokens": 16, "system": "Answer shortly."}
    asked["extra_body"] = {"cache_prompt": False, "temperature": 0}
    whole = client.messages.create(**asked)
    (block,) = whole.content
    assert block.type == "text" and block.text and whole.stop_reason in ("max_tokens", "end_turn"), whole
    with client.messages.stream(**asked) as stream:
        pieces = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert pieces == block.text == final.content[0].text, (pieces, block)
    assert final.usage.output_tokens == whole.usage.output_tokens

    # calls, whole and streamed, and a result that goes back
    tools = {**asked, "tools": [TOOL], "max_tokens": 200}
    tools["tool_choice"] = {"type": "any", "disable_parallel_tool_use": True}
    for seed in range(4):
        tools["extra_body"] = {"seed": seed, "cache_prompt": False, "temperature": 1.0}
        called = client.messages.create(**tools)
        (call,) = called.content
        assert called.stop_reason == "tool_use" and call.type == "tool_use", called
        assert set(call.input) == {"a", "b"} and call.input["b"] in (1, 2, 3), call
        with client.messages.stream(**tools) as stream:
            (streamed,) = stream.get_final_message().content
        assert (streamed.name, streamed.input) == (call.name, call.input)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": str(call.input["a"] + call.input["b"])}
    turn = [*MESSAGES, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    more = client.messages.create(**{**asked, "messages": turn, "tools": [TOOL], "tool_choice": {"type": "auto"}})
    assert more.content

    error = refused(anthropic.BadRequestError, call=client.messages.create, **{**asked, "extra_body": {"temperature": 9}})
    assert "temperature" in str(error)
    stranger = client.with_options(api_key="another")
    refused(anthropic.AuthenticationError, call=stranger.messages.create, **asked)
    print(f"anthropic {anthropic.__version__}: as expected")


main()
