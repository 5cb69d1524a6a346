"""Accepted images, their maximum size, and the errors for everything else."""

import base64
import io
import sys

import pandas as pd
import PIL.Image
import pytest

from nbagent.core.content import images
from nbagent.core.content.images import (
    Image,
    content_as_text,
    content_parts,
    image_media_type,
    image_part,
    images_in,
)
from nbagent.core.inputs import as_messages
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError, MissingDependencyError


def file(format="PNG", width=30, height=20, **options) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (width, height)).save(buffer, format=format, **options)
    return buffer.getvalue()


def opened(part):
    assert set(part) == {"type", "media_type", "data"}
    return PIL.Image.open(io.BytesIO(base64.b64decode(part["data"])))


@pytest.mark.parametrize(
    ("name", "wrap"), [("PNG", bytes), ("JPEG", bytearray), ("GIF", memoryview), ("WEBP", io.BytesIO)]
)
def test_bytes_are_sent_unchanged_and_have_a_size(name, wrap):
    data = file(name)
    assert image_part(wrap(data)) == {
        "type": "image",
        "media_type": f"image/{name.lower()}",
        "data": base64.b64encode(data).decode(),
    }
    assert Image(data, "image/png").size == (30, 20)
    assert Image(data[:9], "image/png").size is None, "an incomplete file is no reason to fail"


def test_paths_are_read_and_strings_are_text(tmp_path):
    path = tmp_path / "cat.jpg"  # the suffix does not matter
    path.write_bytes(file("PNG"))
    assert image_part(path)["media_type"] == "image/png"
    assert image_part({"type": "image", "path": str(path)}) == image_part(path)
    assert as_messages(str(path))[0].content == str(path)
    with path.open("rb") as stream:
        assert image_part(stream) == image_part(path)
    buffer = io.BytesIO()
    buffer.write(file("PNG"))  # its position is at the end now
    assert image_part(buffer) == image_part(path)


def test_oversized_files_are_scaled_down(monkeypatch):
    buffer = io.BytesIO()
    PIL.Image.merge("RGB", [PIL.Image.effect_noise((1600, 1600), 100) for _ in range(3)]).save(buffer, format="PNG")
    large = buffer.getvalue()
    assert len(large) > images.MAX_BYTES
    part = image_part(large)
    assert part["media_type"] == "image/jpeg", "a PNG would still be too large"
    assert len(base64.b64decode(part["data"])) < images.MAX_BYTES
    assert opened(part).size == (1568, 1568)
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # turn right
    assert opened(image_part(file("JPEG", 9000, 90, exif=exif))).size == (16, 1568), "a photo keeps its orientation"
    with pytest.raises(ConfigurationError, match=r"too large to send, and can't be opened: .*Pass a complete"):
        image_part(file("PNG", 9000, 9)[:60])
    for module in ("PIL", "PIL.Image", "PIL.ImageOps"):
        monkeypatch.setitem(sys.modules, module, None)
    told = r"png, \d+\.\d MB.*pip install pillow, or pass a smaller"
    with pytest.raises(MissingDependencyError, match=told):
        image_part(large)


@pytest.mark.parametrize(("value", "says"), [
    (b"", "The bytes value is empty"),
    (b"PK\x03\x04 abc", r"b'PK.* abc'. Pass PNG, JPEG, GIF or WebP"),
    (io.StringIO("text"), "not in a format that models accept"),
    (5, r"can't hold 5 \(type int\). Pass text, a matplotlib figure"),
    (pd.DataFrame({"a": [1]}), "type DataFrame"),
    ({"text": "no type"}, "Pass text, a matplotlib figure"),
    ({"type": "image", "url": "cat.png"}, r"got 'cat.png'. For a file, pass pathlib.Path\('cat.png'\)"),
    ({"type": "image", "media_type": "image/png", "data": "bm90aGluZw=="}, "not in a format that models accept"),
    ({"type": "image", "path": "/no/such/cat.png"}, "The file '/no/such/cat.png' can't be read: No such file"),
])  # fmt: skip
def test_errors_name_the_invalid_image(value, says):
    with pytest.raises(ConfigurationError, match=says):
        content_parts(["look", value])


def test_accepted_messages_with_images():
    png, text = image_part(file()), {"type": "text", "text": "What is this?"}
    ready = LLMMessage("user", [text, png])
    content = ["What is this?", file()]
    for said in (content, tuple(content), iter([text, png]), {"role": "user", "content": content}):
        assert as_messages(said) == [ready]
    for alone in (file(), png, io.BytesIO(file()), Image(file(), "image/png")):
        assert as_messages(alone) == [LLMMessage("user", [png])]
    for one in (file(), png):
        assert as_messages([{"role": "user", "content": one}]) == [LLMMessage("user", [png])]
    assert as_messages([ready])[0] is ready
    assert as_messages([LLMMessage("user", content)]) == [ready]
    assert as_messages([]) == []


def test_an_image_displays_itself(tmp_path):
    image = Image(file("PNG", 300, 200), "image/png")
    assert repr(image).startswith("<Image 300x200 png, ")
    bundle = image._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]) == image.data
    assert bundle["text/plain"] == repr(image)
    assert image.to_pil().size == image.size == (300, 200)
    assert image.save(tmp_path / "a.png").read_bytes() == image.data
    assert image_media_type(image.save(tmp_path / "a.jpg").read_bytes()) == "image/jpeg"
    assert Image.from_part(image.to_part()) == image


def test_the_bytes_decide_the_media_type_of_a_part():
    claims = {"type": "image", "media_type": "image/png"}
    assert Image.from_part({**claims, "data": base64.b64encode(file("GIF")).decode()}).media_type == "image/gif"
    for data in (base64.b64encode(b"<svg onload=alert(1)>").decode(), "a", None):
        assert Image.from_part({**claims, "data": data}) is None
    content = [{**claims, "data": "a"}, {"type": "text", "text": "x"}, image_part(file())]
    assert [image.size for image in images_in(content)] == [(30, 20)]
    assert content_as_text(content) == "[image: image/png]\nx\n[image: 30x20 png]"
