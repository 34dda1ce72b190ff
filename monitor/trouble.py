"""What keeps a part of the monitor from its work."""

from __future__ import annotations

import logging

from monitor.history.database import HistoryError
from monitor.sources import SourceError


class Trouble:
    """Of one part, in the log when it comes, when it changes and when it is over, and not with every repetition.

    What a source has told in the log itself is not told again.
    """

    def __init__(self, log: logging.Logger, subject: str) -> None:
        self.text = ""
        """Empty while there is none."""
        self._log = log
        self._subject = subject
        self._is_logged = False

    def come(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if text == self.text:
            return
        self.text = text
        self._is_logged = not (isinstance(error, SourceError) and error.is_told)
        expected = isinstance(error, SourceError | HistoryError)
        if self._is_logged:
            self._log.error("%s: %s", self._subject, text, exc_info=None if expected else error)

    def go(self) -> None:
        if self.text and self._is_logged:
            self._log.info("%s: works again", self._subject)
        self.text = ""
