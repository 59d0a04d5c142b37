"""Hearth as a service: units for systemd, watchdog, reload, logs, metrics, processes that are looked after.

`edge.service.attend.attended` is what `hearth live` runs in; docs/services.md is the operator's page.
"""
