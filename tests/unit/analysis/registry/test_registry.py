# SPDX-License-Identifier: GPL-3.0-or-later
"""A site of bundles: what does not recompute is named, and not listed."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import zipfile
from html.parser import HTMLParser

import pytest

from joulerig.analysis.bundle import environment, writer
from joulerig.analysis.bundle.check import FAILED, OK, UNCHECKABLE, Check
from joulerig.analysis.registry import entries, site
from joulerig.analysis.registry.entries import Refused
from joulerig.analysis.registry.site import RegistryError
from tests.support import hostile_text, verifiable_campaign

HERE = environment.here("0123456789ab")
CAMPAIGN = "demo-20261113-082640"


def passing(path):
    return [Check("zip", OK), Check("manifest", OK), Check("waveforms", UNCHECKABLE, "none were kept")]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("registry")
    writer.write(verifiable_campaign.build(folder / "c", replicates=2), folder / "demo.zip", HERE)
    return folder / "demo.zip"


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    folder = tmp_path_factory.mktemp("other")
    given = {"name": "other", "drives": ("sata-plp",), "schedulers": ("bfq",), "virtual": False}
    writer.write(verifiable_campaign.build(folder / "c", **given), folder / "other.zip", HERE)
    return folder / "other.zip"


@pytest.fixture
def folder(tmp_path, bundle, other):
    made = tmp_path / "bundles"
    made.mkdir()
    shutil.copy(bundle, made)
    shutil.copy(other, made)
    return made


def gather(folder, verify=passing):
    return entries.gather(folder, HERE, verify)


# --- what is listed


def test_what_verifies_is_listed(bundle, tmp_path):
    shutil.copy(bundle, tmp_path)
    [entry], refused = entries.gather(tmp_path, HERE)  # by rig verify's own code
    assert not refused
    assert entry.campaign == CAMPAIGN
    assert entry.checks >= 10


def test_an_edited_number_is_found_and_named(bundle, tmp_path):
    """Its hashes are right: the energy alone does not follow from the run's files."""
    made = verifiable_campaign.build(tmp_path / "c")
    verifiable_campaign.edit(made, "UPDATE result SET joules = joules * 0.9")
    writer.write(made, tmp_path / "bad.zip", HERE)
    listed, [refused] = entries.gather(tmp_path, HERE)
    assert not listed
    assert refused.file.name == "bad.zip"
    assert any("is stored" in reason for reason in refused.reasons)


def test_a_changed_byte_is_found_and_named(bundle, tmp_path):
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(tmp_path / "bad.zip", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name) + (b" " if name.endswith("load.json") else b""))
    listed, [refused] = entries.gather(tmp_path, HERE)
    assert not listed
    assert refused.reasons[0].startswith("manifest: ")


@pytest.mark.parametrize("content", [b"", b"no zip"])
def test_what_is_no_zip_is_named(tmp_path, content):
    (tmp_path / "bad.zip").write_bytes(content)
    listed, [refused] = entries.gather(tmp_path, HERE)
    assert not listed
    assert str(tmp_path) not in refused.reasons[0]


def test_failed_checks_are_the_reasons(folder):
    def verify(path):
        return [
            Check("tables", FAILED, "2 tables", ("cells.csv: 1", "runs.csv: 2")),
            Check("AI", FAILED, "x"),
        ]

    listed, refused = gather(folder, verify)
    assert not listed
    assert refused[0].reasons == ("tables: cells.csv: 1 (and 1 more)", "AI: x")


def test_what_could_not_be_checked_is_said(folder):
    listed, _ = gather(folder)
    assert listed[0].not_checkable == ("waveforms: none were kept",)
    assert listed[0].checks == 2


def test_a_campaign_is_listed_once(folder, bundle):
    shutil.copy(bundle, folder / "zz.zip")
    listed, [refused] = gather(folder)
    assert len(listed) == 2
    assert (refused.file.name, refused.reasons) == ("zz.zip", (f"campaign {CAMPAIGN} is that of demo.zip",))


def test_a_bundle_that_changes_meanwhile_is_not_listed(folder):
    def verify(path):
        with path.open("ab") as file:
            file.write(b"x")
        return passing(path)

    listed, refused = gather(folder, verify)
    assert not listed
    assert {one.reasons for one in refused} == {("changed while it was checked",)}


def test_other_files_are_left_alone(folder):
    (folder / "notes.txt").write_text("x")
    assert len(gather(folder)[0]) == 2


def test_a_cell_has_its_figures(folder):
    entry = next(one for one in gather(folder)[0] if one.campaign == CAMPAIGN)
    assert [(cell.drive, cell.filesystem, cell.runs) for cell in entry.cells] == [
        ("nvme-plp", "ext4", 2), ("nvme-plp", "f2fs", 2),
    ]  # fmt: skip
    figures = entry.cells[0].numbers
    low, high = (figures[f"ai_ops_per_joule_interval_{end}"] for end in ("low", "high"))
    assert low < figures["ai_ops_per_joule"] < high


def test_the_virtual_lab_is_kept_apart(folder):
    found = {one.campaign.split("-")[0]: one.virtual for one in gather(folder)[0]}
    assert found == {"demo": True, "other": False}


# --- the site


@pytest.fixture
def written(folder, tmp_path):
    listed, _ = gather(folder)
    site.write(tmp_path / "site", listed, [Refused(folder / "bad.zip", ("manifest: <b>",))])
    return tmp_path / "site"


def test_it_has_the_page_the_index_and_the_bundles(written, bundle):
    names = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
    assert names == {"index.html", "registry.json", ".nojekyll", "bundles/demo.zip", "bundles/other.zip"}
    assert (written / "bundles" / "demo.zip").read_bytes() == bundle.read_bytes()


def test_the_index_has_hashes_and_figures(written):
    index = json.loads((written / "registry.json").read_text())
    one = next(one for one in index["bundles"] if one["campaign"] == CAMPAIGN)
    content = (written / one["file"]).read_bytes()
    assert one["sha256"] == hashlib.sha256(content).hexdigest()
    assert one["bytes"] == len(content)
    assert [cell["filesystem"] for cell in one["cells"]] == ["ext4", "f2fs"]
    assert index["not_listed"] == [{"file": "bad.zip", "reasons": ["manifest: <b>"]}]


class Parsed(HTMLParser):
    def __init__(self, source):
        super().__init__()
        self.found = []
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def test_the_page_asks_for_nothing_from_outside(written):
    source = (written / "index.html").read_text()
    for tag, attributes in Parsed(source).found:
        assert tag not in ("link", "img", "iframe", "base", "object")
        assert "src" not in attributes
        address = attributes.get("href", "#")
        assert address.startswith(("#", "bundles/")), address
    assert "url(" not in source
    assert "@import" not in source


def test_style_and_script_are_the_only_ones_that_the_page_allows(written):
    source = (written / "index.html").read_text()
    for tag in ("style", "script"):
        [content] = re.findall(rf"<{tag}>(.*?)</{tag}>", source, flags=re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in source
    assert not any(name.startswith("on") or name == "style" for _, a in Parsed(source).found for name in a)


def test_each_link_leads_somewhere(written):
    found = Parsed((written / "index.html").read_text()).found
    names = {attributes["id"] for _, attributes in found if "id" in attributes}
    for address in (attributes["href"] for _, attributes in found if "href" in attributes):
        assert address[1:] in names if address.startswith("#") else (written / address).is_file()
    for label in (attributes["for"] for tag, attributes in found if tag == "label"):
        assert label in names


def test_what_others_wrote_is_text(written):
    source = (written / "index.html").read_text()
    assert "manifest: &lt;b&gt;" in source
    assert "<b>" not in source


@pytest.mark.parametrize("kind", hostile_text.NAMES)
def test_no_text_of_a_bundle_is_an_element_or_an_attribute_of_the_page(tmp_path, kind):
    text = hostile_text.NAMES[kind]
    numbers = dict.fromkeys(entries._NUMBERS, 1.0)
    cell = entries.Cell(text, text, text, text, text, 1, numbers)
    file = tmp_path / f"{text.replace('/', '_')}.zip"
    drives = {text: dict.fromkeys(("interface", "model", "description"), text)}
    entry = entries.Entry(file, text, 1, text, text, 1, True, text, drives, (cell,), 1, (text,))
    page = site.page([entry], [Refused(file, (text,))])
    assert hostile_text.evaluated(page, "html") == []
    assert html.escape(text, quote=False).partition("'")[0].partition('"')[0] in page
    addresses = [attributes["href"] for _, attributes in Parsed(page).found if "href" in attributes]
    assert [one for one in addresses if not one.startswith(("#", "bundles/"))] == []


def test_each_filter_has_the_levels_that_there_are(written):
    source = (written / "index.html").read_text()
    for key, levels in {"drive": ("nvme-plp", "sata-plp"), "scheduler": ("bfq", "none")}.items():
        [options] = re.findall(rf'data-key="{key}">(.*?)</select>', source, flags=re.S)
        assert tuple(re.findall(r"<option>([^<]+)</option>", options)) == levels


def test_without_a_script_all_is_shown(written):
    found = Parsed((written / "index.html").read_text()).found
    rows = [attributes for tag, attributes in found if tag == "tr" and "data-drive" in attributes]
    assert len(rows) == 4
    assert not any("hidden" in one for one in rows)
    [form] = [attributes for tag, attributes in found if tag == "form"]
    assert "hidden" in form


def test_a_rebuilt_site_loses_what_is_listed_no_more(written, folder):
    (folder / "other.zip").unlink()
    site.write(written, *gather(folder))
    assert [path.name for path in (written / "bundles").iterdir()] == ["demo.zip"]
    assert "other" not in (written / "registry.json").read_text()


def test_the_same_bundles_give_the_same_site(written, folder, tmp_path):
    again = tmp_path / "again"
    site.write(again, gather(folder)[0], [Refused(folder / "bad.zip", ("manifest: <b>",))])
    assert (again / "index.html").read_bytes() == (written / "index.html").read_bytes()


def test_a_folder_of_something_else_is_left_alone(folder, tmp_path):
    target = tmp_path / "home"
    target.mkdir()
    (target / "thesis.tex").write_text("x")
    with pytest.raises(RegistryError, match="has files of something else"):
        site.write(target, *gather(folder))
    assert [path.name for path in target.iterdir()] == ["thesis.tex"]


def test_what_changed_after_it_was_verified_is_not_published(folder, tmp_path):
    listed, refused = gather(folder)
    (folder / "demo.zip").write_bytes(b"x")
    with pytest.raises(RegistryError, match="changed after it was verified"):
        site.write(tmp_path / "site", listed, refused)
    assert not (tmp_path / "site" / "bundles" / "demo.zip").exists()


def test_an_empty_registry_says_so(tmp_path):
    site.write(tmp_path / "site", [], [])
    assert "No bundle is listed." in (tmp_path / "site" / "index.html").read_text()


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (0.0, "0"), (12.34567, "12.35"), (999.9, "999.9"), (123456.7, "123457")]
)
def test_a_figure_has_four_digits(value, text):
    assert site.number(value) == text


def test_a_drive_in_words():
    spec = {"interface": "nvme", "model": "X", "size_bytes": 960_000_000_000, "plp": True}
    assert site.describe(spec) == "nvme, X, 960 GB, power-loss protection"
    assert site.describe({}) == "not described"
