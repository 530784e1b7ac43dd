"""Holds 30 questions about the demo store: 20 that its conversations answer, and 10 about what was never discussed."""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    """Is a question, the words with which an agent searches for it, and what the answer must contain."""

    text: str
    words: str
    answer: str = ""
    "Is empty if it was never discussed."


QUESTIONS = (
    Question("Which port does the staging API listen on?", "staging port", "8443"),
    Question("On which port is staging reached directly now?", "direct staging", "9100"),
    Question("How small did the Docker image become?", "docker image 1.9 GB", "231 MB"),
    Question("How long does the nightly import take with the index?", "nightly import hour", "5 min 12 s"),
    Question("Which lock was released in Terraform?", "terraform unlocked", "6f2b1c9e"),
    Question("How full was the backup disk in the cellar?", "backup disk full", "93%"),
    Question("How much space came back on the backup disk?", "disk GB came back", "329 GB"),
    Question("Which commit fixed the flaky upload test?", "upload test commit", "5b1e0c7"),
    Question("On which branch is the test of the limiter race?", "limiter race branch", "limiter-race"),
    Question("Which commit fixed the crash on empty feeds?", "crash empty feeds pushed", "7d1e3b8"),
    Question("Why are the tables of quill strict?", "strict tables", "refuse at the moment the mistake is made"),
    Question("Which tram is better for a child that gets sick?", "tram winding", "15E"),
    Question("What was wrong with the tide tables?", "high water hour late", "Europe/London"),
    Question("How large is the fixture of the old database?", "fixture tagged 1.2", "16 KB"),
    Question("How often did fail2ban block addresses?", "fail2ban blocked", "212"),
    Question("Which merge request did Anna get?", "assign merge request GitLab token expired", "482"),
    Question("How many lines of code has quill?", "README commits dependency lines", "214"),
    Question("Does urlopen follow file addresses?", "urlopen file", "refuse everything but http"),
    Question("Was tenacity used for the upload?", "tenacity upload", "Nothing was changed"),
    Question("Where does the clock change break?", "clock change scheduler", "scheduler"),
    Question("Did we use Kubernetes?", "kubernetes"),
    Question("What did we decide about GraphQL?", "graphql"),
    Question("Which Kafka topics do we have?", "kafka topic"),
    Question("Was OAuth discussed?", "oauth login"),
    Question("Is there an Ansible playbook?", "ansible playbook"),
    Question("How is Elasticsearch configured?", "elasticsearch"),
    Question("Did anyone mention React Native?", '"react native"'),
    Question("What about the Redis cluster?", "redis cluster"),
    Question("Which blockchain do we use?", "blockchain"),
    Question("Was a unicorn ever mentioned?", "unicorn*"),
)
