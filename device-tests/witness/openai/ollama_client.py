"""Calls a server as apps do that were written for Ollama: what the client of others makes of the answers.

    python ollama_client.py http://127.0.0.1:8080 KEY

Fails with an assertion where something is not as an app expects it.
"""

import importlib.metadata
import json
import sys

import ollama

MESSAGES = [{"role": "user", "content": "Hello, what is é😀?"}]


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


def main():
    url, key = sys.argv[1:]
    client = ollama.Client(host=url, headers={"Authorization": f"Bearer {key}"}, timeout=120)
    model = client.list().models[0]
    options = {"temperature": 0, "num_predict": 16, "num_ctx": 256}
    whole = client.chat(model=model.model, messages=MESSAGES, options=options)
    assert whole.message.content and whole.done and whole.eval_count <= 16, whole
    pieces = client.chat(model=model.model, messages=MESSAGES, options=options, stream=True)
    assert "".join(piece.message.content for piece in pieces) == whole.message.content
    text = client.generate(model=model.model, prompt="Once upon a time", raw=True, options=options)
    streamed = client.generate(model=model.model, prompt="Once upon a time", raw=True, options=options, stream=True)
    assert "".join(piece.response for piece in streamed) == text.response

    schema = {"type": "object", "properties": {"mood": {"enum": ["glad", "sad"]}}, "required": ["mood"]}
    schema["additionalProperties"] = False
    held = client.chat(model=model.model, messages=MESSAGES, format=schema, options={"num_predict": 60})
    assert json.loads(held.message.content)["mood"] in ("glad", "sad")

    # the model may call, and what it called before is part of the chat
    may = client.chat(model=model.model, messages=MESSAGES, tools=[add], options=options)
    for call in may.message.tool_calls or []:
        add(**call.function.arguments)
    call = {"function": {"name": "add", "arguments": {"a": 2, "b": 3}}}
    turn = [*MESSAGES, {"role": "assistant", "content": "", "tool_calls": [call]}]
    turn.append({"role": "tool", "content": "5", "tool_name": "add"})
    assert client.chat(model=model.model, messages=turn, tools=[add], options=options).done

    try:
        client.chat(model="another", messages=MESSAGES)
    except ollama.ResponseError as error:
        assert error.status_code == 404 and "another" in error.error, error
    else:
        raise AssertionError("an unknown model was answered")
    print(f"ollama {importlib.metadata.version('ollama')}: as expected")


main()
