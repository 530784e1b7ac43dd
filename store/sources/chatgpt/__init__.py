"""This package reads exports of ChatGPT."""
