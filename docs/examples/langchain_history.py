"""A chat model of LangChain whose messages are kept in a store.

    pip install 'backscroll[langchain]'
    python docs/examples/langchain_history.py [STORE]

Run it again, and the conversation continues. The model is scripted, so that the program runs offline. Replace it by any
chat model of LangChain.
"""

from __future__ import annotations

import sys
from typing import Any

from langchain_core.language_models.chat_models import SimpleChatModel
from langchain_core.messages import BaseMessage, HumanMessage

from store import Store
from store.agent_api.histories.langchain import StoreChatMessageHistory

SESSION = "example:langchain"


class ScriptedModel(SimpleChatModel):
    """Answers with the number of the question."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _call(self, messages: list[BaseMessage], *args: Any, **options: Any) -> str:
        number = sum(isinstance(message, HumanMessage) for message in messages)
        return f"The lamp is green. This was question {number}."


def main() -> None:
    with Store.open(sys.argv[1] if len(sys.argv) > 1 else None) as store:
        history = StoreChatMessageHistory(store, SESSION, agent_title="Example: LangChain")
        history.add_messages([HumanMessage("How is the lamp?")])
        answer = ScriptedModel().invoke(history.messages)
        history.add_messages([answer])
        print(answer.content)


main()
