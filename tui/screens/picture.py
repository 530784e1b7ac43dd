"""This screen shows a picture of a session with the characters of the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from store.errors import BadValue
from store.model.entry import Attachment, Entry
from store.text.validate import decode
from tui.dialogs.layout import HELP_BINDING
from tui.messages import DataMessage
from tui.render.picture import find_pictures, render_picture
from tui.render.styles import MUTED
from tui.widgets.key_hints import KeyHintBar
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

NO_PICTURE_DATA = "The record does not contain the picture itself."
NO_COLOUR = "Pictures need colours, but NO_COLOR is set. Unset it to see the picture."
NO_PILLOW = "Pillow, which shows pictures, is not installed. Run `pip install 'backscroll[images]'`."


class PictureScreen(ModalScreen[None]):
    DEFAULT_CSS = """
    PictureScreen {
        align: center middle;

        #picture {
            width: auto;
            height: auto;
            max-width: 100%;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "dismiss(None)", "Close", id="picture.close", tooltip="Back to the conversation"),
        HELP_BINDING,
    ]

    class PictureRendered(DataMessage):
        lines: Sequence[Content]

    def __init__(self, store: Store, entry: Entry, part: int) -> None:
        super().__init__()
        self._store = store
        self._entry = entry
        self._picture_index = sum(_is_picture(one) for one in entry.parts[:part])

    def compose(self) -> ComposeResult:
        yield Static(Content.styled("…", MUTED), id="picture")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self._render_in_thread()

    def on_resize(self) -> None:
        self._render_in_thread()

    @threaded(exclusive=True, group="paint")
    def _render_in_thread(self) -> None:
        try:
            data = self._read_picture()
            lines = (
                [Content(NO_COLOUR)]
                if self.app.no_color
                else render_picture(data, self.size.width, self.size.height - 1)
            )
        except ModuleNotFoundError:
            lines = [Content(NO_PILLOW)]
        except ValueError as reason:
            lines = [Content(str(reason))]
        self.post_message(self.PictureRendered(lines))

    def _read_picture(self) -> bytes:
        if self._entry.record is not None:
            try:
                record = decode(self._store.records.get(self._entry.record))
            except BadValue:
                record = None
            for number, data in enumerate(find_pictures(record)):
                if number == self._picture_index:
                    return data
        raise ValueError(NO_PICTURE_DATA)

    @on(PictureRendered)
    def _show_picture(self, shown: PictureRendered) -> None:
        self.query_one("#picture", Static).update(Content("\n").join(shown.lines))


def _is_picture(part: object) -> bool:
    return isinstance(part, Attachment) and part.media_type.startswith("image")
