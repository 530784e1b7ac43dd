"""This package serves published files over HTTP, to programs on this machine only. It needs the extra `web`."""

try:
    import starlette as starlette
    import uvicorn as uvicorn
except ImportError as missing:
    raise ImportError("The web server is not installed. Run `pip install 'backscroll[web]'`.") from missing
