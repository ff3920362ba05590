"""Calls a server with LangChain's client of OpenAI's interface, as its quick starts do.

    python langchain_client.py http://127.0.0.1:8080/v1 KEY

Fails with an assertion where something is not as an app expects it.
"""

import importlib.metadata
import sys
from typing import Annotated, Literal

from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, ConfigDict, Field

# a small model writes digits for ever
Number = Annotated[int, Field(ge=0, le=99)]


@tool
def add(a: Number, b: Number) -> int:
    """Adds two numbers."""
    return a + b


class Mood(BaseModel):
    """How someone feels."""

    # a model of random weights would add other keys without an end
    model_config = ConfigDict(extra="forbid")

    mood: Literal["glad", "sad"]


def main():
    url, key = sys.argv[1:]
    model = ChatOpenAI(base_url=url, api_key=key, model="gpt-4o-mini", temperature=0, max_tokens=150, max_retries=0)
    asked = [SystemMessage("Answer shortly."), HumanMessage("Hello, what is é😀?")]
    whole = model.invoke(asked)
    assert whole.content and whole.usage_metadata["output_tokens"] > 0, whole
    assert "".join(piece.content for piece in model.stream(asked))

    calling = model.bind_tools([add], tool_choice="any", parallel_tool_calls=False)
    called = calling.invoke([HumanMessage("Add 2 and 3.")])
    (call,) = called.tool_calls
    result = add.invoke(call["args"])
    assert result == call["args"]["a"] + call["args"]["b"], called
    turn = [HumanMessage("Add 2 and 3."), called, ToolMessage(str(result), tool_call_id=call["id"])]
    assert model.bind_tools([add]).invoke(turn) is not None
    streamed = None
    for piece in calling.stream([HumanMessage("Add 2 and 3.")]):
        streamed = piece if streamed is None else streamed + piece
    assert [of["name"] for of in streamed.tool_calls] == ["add"], streamed

    for method in ("json_schema", "function_calling"):
        mood = model.with_structured_output(Mood, method=method).invoke("How are you?")
        assert mood.mood in ("glad", "sad"), mood
    print(f"langchain-openai {importlib.metadata.version('langchain-openai')}: as expected")


main()
