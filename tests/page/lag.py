"""How late the page is: from each decision until the list of items shows it."""

from dataclasses import dataclass

from tests.page.live_tab import LiveTab

_OBSERVE = """{
    const list = document.querySelector("#item-list");
    globalThis.firstShown = new Map();
    const look = () => {
        const now = Date.now();
        for (const line of list.children) {
            for (const mark of JSON.parse(line.dataset.shown ?? "[]")) {
                const name = [line.dataset.key, mark.word, mark.channel].join(" ");
                if (!firstShown.has(name)) {
                    firstShown.set(name, [line.dataset.key, mark.word, mark.at, now]);
                }
            }
        }
    };
    look();
    new MutationObserver(look).observe(list, { childList: true, subtree: true });
}"""


@dataclass(frozen=True)
class ShownMark:
    """A decision on the list, with when it was taken and when it was first there, in UNIX milliseconds."""

    key: str
    word: str
    at: int
    shown_at: int

    @property
    def lag_s(self) -> float:
        return (self.shown_at - self.at) / 1000


class Lag:
    """What the tab has shown since `begin`."""

    def __init__(self, tab: LiveTab) -> None:
        self._tab = tab

    async def begin(self) -> None:
        await self._tab.tab.evaluate(_OBSERVE)

    async def marks(self) -> list[ShownMark]:
        found = await self._tab.tab.evaluate("[...firstShown.values()]")
        return [ShownMark(*each) for each in found]
