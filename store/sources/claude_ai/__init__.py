"""This package reads exports of claude.ai."""
