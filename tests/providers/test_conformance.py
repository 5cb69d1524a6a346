"""Every provider in the catalog keeps the same promises, streamed and whole.

All checks run once for each wire format and transport. For the other providers, only the checks that depend on the
provider run. Checks that do not apply to a provider, or to whole answers, are listed here with the reason.
"""

import asyncio
import io

import certifi
import pytest
from support.conformance import CHECKS
from support.conformance_case import catalog_cases
from support.conformance_histories import build_histories

from nbagent.providers.catalog import CATALOG
from nbagent.providers.http import retry

#: No case takes this long, however busy the machine is, unless it hangs.
TIMEOUT_S = 300
CASES = catalog_cases()
NAMES = {case.name for case in CASES}

_SILENT = "never shows its thinking"
_WHOLE = "has no pieces"
_ALIKE = "the request is the same as with a stream"
#: One case for each wire format and transport.
FULL = {"openai chat", "openai responses", "claude", "gemini", "open_source vllm"}
#: Behaviours that format and transport share for all their providers.
OF_THE_FORMAT = {
    "check_text_in_pieces",
    "check_empty_answer",
    "check_line_ends_comments_and_new_events",
    "check_one_tool_call",
    "check_odd_tools",
    "check_arguments_in_pieces",
    "check_empty_arguments",
    "check_cut_arguments_do_not_run",
    "check_arguments_that_are_no_json",
    "check_unknown_model",
    "check_the_provider_is_stateless",
    "check_answer_that_breaks_off",
    "check_lasting_trouble_is_an_error",
    "check_cancelling",
}
#: Behaviours that are also checked with whole answers for the other providers.
WHOLE = {"check_thinking_goes_back", "check_parallel_tool_calls", "check_usage"}

#: Case -> behaviour -> the reason why it is not checked.
NOT_FOR = {
    "openai chat": {"check_thinking_is_shown": _SILENT},
    "local": {
        "check_thinking_is_shown": _SILENT,
        "check_unknown_model": "a model is a file",
        "check_wrong_key": "makes its own key",
    },
    "gemini": {"check_cut_arguments_do_not_run": "a call comes whole, or not at all"},
}
#: For all cases that are not streamed.
NOT_WHOLE = {
    "check_arguments_in_pieces": _WHOLE,
    "check_line_ends_comments_and_new_events": _WHOLE,
    "check_history_of_every_other_provider": _ALIKE,
    "check_odd_histories": _ALIKE,
    "check_prefix_is_stable": _ALIKE,
    "check_system_prompt": _ALIKE,
    "check_images": _ALIKE,
    "check_temperature": _ALIKE,
    "check_output_limit": _ALIKE,
    "check_further_fields": _ALIKE,
    "check_unknown_model": _ALIKE,
}


def runs():
    """All behaviours for all cases, except those that the tables exclude."""
    for case in CASES:
        for check in CHECKS:
            name = check.__name__
            how = "streamed" if case.streaming else "whole"
            left_out = NOT_FOR.get(case.name, {})
            of_the_provider = name not in OF_THE_FORMAT if case.streaming else name in WHOLE
            is_due = case.name in FULL or of_the_provider
            if is_due and name not in left_out and (case.streaming or name not in NOT_WHOLE):
                yield pytest.param(case, check, id=f"{name.removeprefix('check_')}-{case.name}-{how}")


@pytest.fixture(scope="module", autouse=True)
def _few_certificates(tmp_path_factory):
    """Nothing here uses TLS: with one root certificate instead of all, creating clients takes no time."""
    first = certifi.contents().partition("-----END CERTIFICATE-----")
    path = tmp_path_factory.mktemp("certificates") / "one.pem"
    path.write_text(first[0] + first[1] + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(path))
        yield


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.001)


@pytest.fixture(scope="module")
def histories():
    """Conversations with all providers, created outside the time limit of the first case that needs them."""
    with asyncio.Runner() as runner:
        runner.run(build_histories())


@pytest.fixture
def needed(request, check):
    if check.__name__ == "check_history_of_every_other_provider":
        request.getfixturevalue("histories")


@pytest.mark.parametrize(("case", "check"), list(runs()))
async def test_conformance(case, check, needed):
    task = asyncio.create_task(check(case))
    await asyncio.wait([task], timeout=TIMEOUT_S)
    if not task.done():
        task.print_stack(file=(place := io.StringIO()))
        task.cancel()
        pytest.fail(f"it hangs: not done after {TIMEOUT_S} s\n{place.getvalue()}")
    task.result()


def test_every_provider_has_a_case():
    assert {name.split()[0] for name in NAMES} == {name for name, provider in CATALOG.items() if provider.format}


def test_omitted_checks_exist():
    known = {check.__name__ for check in CHECKS}
    assert NOT_FOR.keys() <= NAMES
    assert {name for left_out in (OF_THE_FORMAT, WHOLE, NOT_WHOLE, *NOT_FOR.values()) for name in left_out} <= known
    assert FULL <= NAMES
