"""The page of the lab's scenes, and the page on which one of them is played, step by step or to its end.

A scene runs on a broker of its own: it sends nothing to the brokers that the other pages show.
"""

from __future__ import annotations

from typing import Any, Final

from semel.console.pages import InvalidRequest, Page, Visit, link
from semel.console.scene_runs import SECONDS_MAX, LabTexts, RunState, SceneBusy, SceneText
from semel.console.texts import command

LANGUAGES: Final = {"en": "English", "zh": "中文"}
_LIVE_EVERY_S: Final = 0.3
BUSY: Final = "Another visitor plays a scene, and this machine plays one at a time. It ends within ten minutes."


def scenes(visit: Visit) -> Page:
    language = _language(visit)
    texts = visit.scenes.texts()
    rows = [
        (one, {protected: visit.scenes.find(visit.session, one, protected=protected) for protected in (True, False)})
        for one in texts.scenes
    ]
    values = {**_around(visit, texts, language, "lab"), "rows": rows, "line": command("lab", options=_lang(language))}
    return Page("lab.html", "Lab", "lab", values, live_every_s=None)


def scene(visit: Visit) -> Page:
    language, protected = _language(visit), _protected(visit)
    texts = visit.scenes.texts()
    shown = _scene(visit, texts)
    run = visit.scenes.find(visit.session, shown, protected=protected)
    off = [] if protected else ["--without-protection"]
    values = {
        **_around(visit, texts, language, "scene", name=shown.name, protection=_PROTECTIONS[protected]),
        "scene": shown,
        "protected": protected,
        "run": run,
        "is_waiting": run is not None and run.state is RunState.WAITING,
        "other": visit.scenes.find(visit.session, shown, protected=not protected),
        "switch": {
            choice: link("scene", name=shown.name, protection=_PROTECTIONS[choice], **_lang_query(language))
            for choice in (True, False)
        },
        "line": command("lab", options=["--scene", shown.number, *off, *_lang(language)]),
        "minutes_max": round(SECONDS_MAX / 60),
        "said": None,
    }
    is_live = run is not None and not run.is_over
    return Page("scene.html", shown.title[language], "lab", values, _LIVE_EVERY_S if is_live else None)


def play(visit: Visit) -> Page:
    """Handle the form of a scene: ``do`` is step or run, which start or continue the scene, or stop."""
    language, protected = _language(visit), _protected(visit)
    texts = visit.scenes.texts()
    shown = _scene(visit, texts)
    run = visit.scenes.find(visit.session, shown, protected=protected)
    match visit.form.get("do"):
        case "stop":
            if run is not None:
                run.close()
        case "step" | "run" as wish:
            to_the_end = wish == "run"
            try:
                if run is None or run.is_over:
                    visit.scenes.start(visit.session, shown, protected=protected, steps_through=not to_the_end)
                else:
                    run.go_on(to_the_end=to_the_end)
            except SceneBusy:
                page = scene(visit)
                values = {**page.values, "said": texts.say(language, BUSY)}
                return Page(page.template, page.title, page.place, values, None, 409)
        case other:
            raise InvalidRequest(f"do {other!r}: it is step, run or stop")
    here = link("scene", name=shown.name, protection=_PROTECTIONS[protected], **_lang_query(language))
    return Page("scene.html", shown.name, "lab", go_to=here)


_PROTECTIONS: Final = {True: None, False: "off"}


def _around(visit: Visit, texts: LabTexts, language: str, path: str, **query: Any) -> dict[str, Any]:
    """Return the values that both pages have: the language, the links to other languages, and the translations."""
    return {
        "lang": language,
        "languages": {name: (LANGUAGES[name], link(path, **query, **_lang_query(name))) for name in LANGUAGES},
        "lang_query": _lang_query(language),
        "say": lambda text, **values: texts.say(language, text, **values),
        "may_play": visit.may_play,
    }


def _scene(visit: Visit, texts: LabTexts) -> SceneText:
    name = visit.name("name")
    found = texts.scene(name)
    if found is None:
        raise InvalidRequest(f"name {name!r}: there is no such scene; the page Lab has all of them")
    return found


def _language(visit: Visit) -> str:
    language = visit.query.get("lang", "en")
    if language not in LANGUAGES:
        raise InvalidRequest(f"lang {language!r}: it is one of {', '.join(LANGUAGES)}")
    return language


def _protected(visit: Visit) -> bool:
    protection = visit.query.get("protection", "on")
    if protection not in ("on", "off"):
        raise InvalidRequest(f"protection {protection!r}: it is on or off")
    return protection == "on"


def _lang(language: str) -> list[str]:
    return [] if language == "en" else ["--lang", language]


def _lang_query(language: str) -> dict[str, str | None]:
    return {"lang": None if language == "en" else language}
