"""What to do about a finding where a command shows it: there is no /debug here, and perhaps no configuration."""

from __future__ import annotations

from dataclasses import replace

from exporters.findings import KINDS, Finding

_TRTLLM = "the page is at /prometheus/metrics, and the server needs `return_perf_metrics: true`"

REMEDIES = {
    "unauthorized": "Give --bearer-token-file FILE, or name the server with its credentials in a configuration and "
    "give --config FILE.",
    "credentials_unreadable": "Check that the token's file can be read here and holds one line of text, or that the "
    "variable of `bearer_token_env` is set.",
    "tls_error": "Check the server's certificate. Its own authority, a client's certificate and the like go into "
    "`tls` of this server in a configuration: --config FILE.",
    "timeout": "An overloaded or hanging server; if it is only slow, raise `timeout` of this server in a "
    "configuration: --config FILE.",
    "not_found": "Switch the server's metrics on, or give the URL of its metrics page.",
    "unexpected_status": "Check the URL, or give that of the metrics page.",
    "json_body": f"Take another page. For trtllm-serve: {_TRTLLM}.",
    "html_body": "A web page or a login proxy answers here: check the URL, or give that of the metrics page.",
    "dropped_samples": "`inferwatch check` lists them with the reasons.",
    "internal_error": "Report it with the page and with what --verbose prints.",
}


def for_commands(finding: Finding) -> Finding:
    """A remedy of the server's own framework stays: it knows more."""
    own = REMEDIES.get(finding.reason)
    return replace(finding, remedy=own) if own and finding.remedy == KINDS[finding.reason].remedy else finding
