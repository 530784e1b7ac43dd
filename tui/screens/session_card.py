"""This card shows everything that is known about a session besides its turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Static

from store.model.session_card import SessionCard
from tui.dialogs.layout import HELP_BINDING
from tui.messages import DataMessage
from tui.render.resume_card import TITLE_STYLE
from tui.render.session_card import list_card_fields
from tui.screens.store_screen import Clock
from tui.widgets.field_view import FieldView
from tui.widgets.key_hints import KeyHintBar
from tui.workers import threaded

if TYPE_CHECKING:
    from store.model.session import Session
    from store.resume.check_results import SourceState
    from store.store import Store

CARD_WIDTH = 100


class SessionCardScreen(ModalScreen[str | None]):
    AUTO_FOCUS = "FieldView"
    DEFAULT_CSS = f"""
    SessionCardScreen {{
        align: center middle;

        Vertical {{
            width: {CARD_WIDTH};
            max-width: 96%;
            height: auto;
            max-height: 90%;
            padding: 1 2;
            background: $surface;
        }}

        #title {{
            height: 1;
            margin-bottom: 1;
        }}

        FieldView {{
            height: 70vh;
            background: $surface;
            scrollbar-size-vertical: 1;
        }}
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("P", "published", "Published files", id="card.published", tooltip="Show the session's published files"),
        Binding("escape,q,I", "dismiss(None)", "Back", id="card.leave", tooltip="Back to the browser"),
        HELP_BINDING,
    ]

    fields = query_one(FieldView)

    class CardLoaded(DataMessage):
        """Holds the card, first without the state of the source, because comparing with the source takes a moment."""

        card: SessionCard
        state: SourceState | None

    def __init__(self, store: Store, session: Session, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._clock = clock

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content.styled("Session card", TITLE_STYLE), id="title")
            yield FieldView()
        yield KeyHintBar()

    def on_mount(self) -> None:
        self._load()

    def action_published(self) -> None:
        from tui.screens.published import PublishedScreen

        self.app.push_screen(PublishedScreen(self._store, self._session, self._clock), self._go_to_entry)

    def _go_to_entry(self, entry: str | None) -> None:
        """Leave the card for an entry that was chosen among the published files."""
        if entry is not None:
            self.dismiss(entry)

    @threaded(group="card")
    def _load(self) -> None:
        from store.conversations.session_card import read_session_card
        from store.resume.checks import check_source_state

        card = read_session_card(self._store, self._session.key)
        self.post_message(self.CardLoaded(card, None))
        self.post_message(self.CardLoaded(card, check_source_state(self._store, card.session)))

    @on(CardLoaded)
    def _show_card(self, loaded: CardLoaded) -> None:
        self.fields.show(list_card_fields(loaded.card, loaded.state, self._clock()))
