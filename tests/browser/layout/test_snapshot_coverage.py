"""These tests check that every screen and dialog has a snapshot in a narrow and in a wide terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.screen import Screen

from tui.palette import all_bindings

SCREENS = "__snapshots__/test_screen_snapshots/"
MEMORY = "memory/__snapshots__/test_memory_snapshots/"
SNAPSHOTS = {
    "AddressDialog": "links/__snapshots__/test_link_snapshots/test_links[address-{}]",
    "AudienceDialog": MEMORY + "test_audience[{}]",
    "BrowserScreen": SCREENS + "test_screen[list-{}]",
    "ChangesScreen": "diffs/__snapshots__/test_diff_snapshots/test_diffs[changes-{}]",
    "CompactionScreen": "timeline/__snapshots__/test_timeline_snapshots/test_a_compaction[screen-{}]",
    "ComparisonScreen": "diffs/__snapshots__/test_diff_snapshots/test_diffs[comparison-{}]",
    "ConfirmDialog": SCREENS + "test_secrets[delete_permanently-{}]",
    "ConflictDialog": SCREENS + "test_conflict[{}]",
    "ExplanationDialog": "stats/__snapshots__/test_stats_snapshots/test_stats[explained-{}]",
    "ExportDialog": "diffs/__snapshots__/test_diff_snapshots/test_diffs[export-{}]",
    "ExportPathDialog": "export/__snapshots__/test_export_snapshots/test_the_path_of_an_export[{}]",
    "FactsScreen": SCREENS + "test_screen[facts-{}]",
    "FolderDialog": SCREENS + "test_folder[{}]",
    "ForkDialog": "__snapshots__/test_fork_dialog/test_the_dialog[here-{}]",
    "HelpScreen": SCREENS + "test_screen[help-{}]",
    "InspectorScreen": SCREENS + "test_screen[inspector-{}]",
    "JournalScreen": SCREENS + "test_screen[journal-{}]",
    "LeaksScreen": "leaks/__snapshots__/test_leaks_snapshots/test_leaks[{}]",
    "LinkPickerDialog": "links/__snapshots__/test_link_snapshots/test_links[picker-{}]",
    "MemoryScreen": MEMORY + "test_memory[{}]",
    "MergeDialog": MEMORY + "test_merge[{}]",
    "MultilineDialog": SCREENS + "test_screen[note-{}]",
    "OutsidePathDialog": "links/__snapshots__/test_link_snapshots/test_links[outside-{}]",
    "OwnSummaryDialog": "timeline/__snapshots__/test_timeline_snapshots/test_a_compaction[own_summary-{}]",
    "PassphraseDialog": SCREENS + "test_passphrase[{}]",
    "PickerScreen": SCREENS + "test_picker[{}]",
    "PictureScreen": SCREENS + "test_picture[{}]",
    "PreviewDialog": SCREENS + "test_screen[consolidation-{}]",
    "PullDialog": MEMORY + "test_pull[{}]",
    "PublishDialog": SCREENS + "test_publishing[{}]",
    "PublishedScreen": SCREENS + "test_published[{}]",
    "RebuildScreen": SCREENS + "test_screen[input-{}]",
    "RedactionDialog": "leaks/__snapshots__/test_leaks_snapshots/test_redaction_preview[{}]",
    "RedactionsScreen": "leaks/__snapshots__/test_leaks_snapshots/test_redactions[{}]",
    "RequestDialog": "__snapshots__/test_team_dialogs/test_dialog[request-{}]",
    "ResumeScreen": SCREENS + "test_screen[resume-{}]",
    "SearchNameDialog": "search/__snapshots__/test_search_snapshots/test_search[save-{}]",
    "SearchesDialog": "search/__snapshots__/test_search_snapshots/test_search[recall-{}]",
    "SecretDialog": SCREENS + "test_secrets[new-{}]",
    "SecretsScreen": SCREENS + "test_secrets[names-{}]",
    "SessionCardScreen": SCREENS + "test_screen[card-{}]",
    "SessionExportDialog": "export/__snapshots__/test_export_snapshots/test_export_dialog[{}]",
    "SessionOrderDialog": SCREENS + "test_screen[order-{}]",
    "ShareDialog": SCREENS + "test_share[{}]",
    "SingleLineDialog": SCREENS + "test_screen[title-{}]",
    "StatsScreen": "stats/__snapshots__/test_stats_snapshots/test_stats[cost-{}]",
    "SummaryScreen": SCREENS + "test_screen[summary-{}]",
    "ToolCallPickerDialog": SCREENS + "test_screen[calls-{}]",
    "ToolCallsScreen": SCREENS + "test_screen[tools-{}]",
    "UnsavedDialog": SCREENS + "test_screen[leaving-{}]",
    "ValueConflictDialog": "__snapshots__/test_team_dialogs/test_dialog[conflict-{}]",
    "WriteBackDialog": SCREENS + "test_write_back[{}]",
}
"""Holds one snapshot of each screen and dialog, with a place for its size."""


def find_screens() -> Iterator[str]:
    """Yield the names of the screens and dialogs that are bases of no others, and of those in `SNAPSHOTS`."""
    list(all_bindings())  # imports all of them
    classes: list[type[object]] = [Screen]
    while classes:
        screen = classes.pop()
        classes += screen.__subclasses__()
        if screen.__module__.startswith("tui.") and (screen.__name__ in SNAPSHOTS or not screen.__subclasses__()):
            yield screen.__name__


def test_every_screen_is_in_the_list() -> None:
    assert set(find_screens()) == SNAPSHOTS.keys()


@pytest.mark.parametrize("size", ["narrow", "wide"])
@pytest.mark.parametrize("screen", SNAPSHOTS)
def test_every_screen_has_snapshots(screen: str, size: str) -> None:
    assert (Path(__file__).parents[1] / f"{SNAPSHOTS[screen].format(size)}.svg").exists()
