"""The rooms of language models in the house: drawn, legible, with a slider and a button each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

pytest.importorskip("playwright", reason="BROWSER TESTS SKIPPED: playwright is not installed")

from playwright.sync_api import Browser, Page

import explorer
from explorer.frontends.decoders.families import FAMILIES
from explorer.frontends.decoders.family_config import config_of
from explorer.frontends.decoders.language_model import language_model
from explorer.frontends.decoders.vocabulary import CharacterVocabulary
from explorer.ir.program import Constant
from explorer.training.manual_model import CHARACTERS
from tests.browser.over_session import house, settle
from tests.frontends.decoders.tiny_models import LLAMA, drawn
from widgets.session.session import Session

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def session() -> Session:
    config = config_of(FAMILIES["llama"], {**LLAMA, "vocab_size": len(CHARACTERS)}, "config.json")
    arrays = drawn(config)
    constants = {n: Constant(a) for n, a in arrays.items()}
    tiny = language_model(config, constants, {n: n for n in arrays}, "tiny")
    model = replace(tiny, vocabulary=CharacterVocabulary(CHARACTERS))
    return Session(explorer.compile(model, donate=model.caches))


@pytest.fixture(params=[("light", 1280), ("dark", 560)], ids=["wide", "narrow"])
def page(request: pytest.FixtureRequest, browser: Browser, session: Session) -> Iterator[Page]:
    scheme, width = request.param
    with house(browser, session, width=width, height=900, scheme=scheme) as found:
        found.wait_for_function("!document.querySelector('.house[aria-busy]')")
        yield found


def words_of(page: Page) -> str:
    return page.locator("#room .picture svg.pic").first.text_content() or ""


def test_bits_are_chosen_and_the_block_and_bytes_follow(page: Page) -> None:
    page.evaluate("driver.go('low_bit')")
    settle(page)
    page.wait_for_selector("#room .picture svg.pic[aria-label^='Low bit']")
    assert "32 bits each" in words_of(page)
    page.locator("select[aria-label='weights as']").select_option(label="int4 in blocks of 32")
    page.wait_for_function(
        "document.querySelector('#room .picture svg.pic').textContent.includes('and a scale of 32')"
    )
    assert "not measured yet" in words_of(page)


def test_a_layer_stands_beside_its_floor(page: Page) -> None:
    page.evaluate("driver.go('one_token')")
    settle(page)
    page.wait_for_selector("#room .picture svg.pic[aria-label^='One token']")
    assert "layer 0" in words_of(page) and "floor" in words_of(page)


def test_a_token_is_measured_by_its_button(browser: Browser, session: Session) -> None:
    with house(browser, session, width=1280, height=900) as found:
        found.wait_for_function("!document.querySelector('.house[aria-busy]')")
        found.evaluate("driver.go('one_token')")
        settle(found)
        assert "measured, 99" not in words_of(found)
        found.get_by_role("button", name="Measure a token").first.click()
        found.wait_for_function(
            "document.querySelector('#room .picture svg.pic').textContent.includes('measured, 99')"
        )
