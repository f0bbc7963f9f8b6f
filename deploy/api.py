"""HTTP for programs that run before anything is installed. Ignores proxies in the environment."""

import base64
import http.client
import json
import re
import urllib.parse
from dataclasses import dataclass
from typing import Any

from deploy import StackError


class Unanswered(StackError):
    """An address doesn't answer, or not as the program that should be there; `status` is HTTP's, if it answers."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Api:
    """The pages of Prometheus, Grafana or another program below a URL, which may have a user and a password."""

    url: str
    token: str = ""
    seconds: float = 15  # for an answer

    def page(self, path: str, **parameters: str) -> bytes:
        """The body of a 200 answer; raises `Unanswered`."""
        parts = urllib.parse.urlsplit(self.url)
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        if parts.scheme not in kinds or not parts.hostname:
            raise Unanswered(f"{self._shown('')} is no URL such as http://prometheus:9090")
        headers = {}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        elif parts.username is not None:
            user = urllib.parse.unquote(f"{parts.username}:{parts.password or ''}")
            headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        asked = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        try:
            connection = kinds[parts.scheme](parts.hostname, parts.port, timeout=self.seconds)
        except ValueError as error:
            raise Unanswered(f"{self._shown('')}: {error}") from None
        try:
            connection.request("GET", f"{parts.path.rstrip('/')}{path}{asked}", headers=headers)
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise Unanswered(f"{self._shown(path)} answers {answer.status} {answer.reason}", answer.status)
            body: bytes = answer.read()
            return body
        except (OSError, http.client.HTTPException) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise Unanswered(f"{self._shown(path)}: {reason or error}") from None
        finally:
            connection.close()

    def fetch(self, path: str, **parameters: str) -> bytes | None:
        """The body of a 200 answer, or None."""
        try:
            return self.page(path, **parameters)
        except Unanswered:
            return None

    def get(self, path: str, **parameters: str) -> Any:
        """The JSON of an answer; raises `Unanswered`."""
        try:
            return json.loads(self.page(path, **parameters))
        except (ValueError, RecursionError):
            raise Unanswered(f"{self._shown(path)} doesn't answer in JSON", http.client.OK) from None

    def data(self, path: str, **parameters: str) -> Any:
        """The data in an answer of Prometheus; raises `Unanswered`."""
        answer = self.get(path, **parameters)
        if not isinstance(answer, dict) or answer.get("status") != "success":
            raise Unanswered(f"{self._shown(path)} isn't answered by a Prometheus")
        return answer["data"]

    def query(self, expr: str) -> list[tuple[dict[str, str], float]]:
        """The series of an instant query: labels and value; raises `Unanswered`."""
        return [
            (series["metric"], float(series["value"][1])) for series in self.data("/api/v1/query", query=expr)["result"]
        ]

    def _shown(self, path: str) -> str:
        """A URL without its password, for messages."""
        return re.sub("//[^/]*@", "//", f"{self.url.rstrip('/')}{path}")
