"""Hearth as a service: units for systemd, watchdog, reload, logs, metrics, processes that are looked after.

`attended` is what `hearth live` runs in; docs/services.md is the operator's page.
"""

from edge.service.attend import Attendance, attended

__all__ = ["Attendance", "attended"]
