"""Which images users may pass, how large they may be, and the errors for everything else."""

import base64
import io
import json
import pickle
import sys

import matplotlib as mpl
import matplotlib.figure
import PIL.Image
import pytest

from nbagent.core.content import images
from nbagent.core.content.images import (
    Image,
    content_as_text,
    content_parts,
    image_media_type,
    image_part,
    image_size,
    images_in,
)
from nbagent.core.history.context import ContextManager
from nbagent.core.inputs import as_messages
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError, MissingDependencyError

mpl.use("Agg")


def picture(width=30, height=20, mode="RGB"):
    return PIL.Image.new(mode, (width, height))


def file(format="PNG", width=30, height=20, **options) -> bytes:
    buffer = io.BytesIO()
    picture(width, height).save(buffer, format=format, **options)
    return buffer.getvalue()


def figure():
    made = matplotlib.figure.Figure(figsize=(4, 3))
    made.subplots().plot([1, 2])
    return made


def opened(part):
    assert set(part) == {"type", "media_type", "data"}
    return PIL.Image.open(io.BytesIO(base64.b64decode(part["data"])))


@pytest.mark.parametrize(
    ("name", "wrap"), [("PNG", bytes), ("JPEG", bytearray), ("GIF", memoryview), ("WEBP", io.BytesIO)]
)
def test_bytes_pass_unchanged(name, wrap):
    data = file(name)
    part = image_part(wrap(data))
    assert part == {
        "type": "image",
        "media_type": f"image/{name.lower()}",
        "data": base64.b64encode(data).decode(),
    }


@pytest.mark.parametrize(("name", "options"), [
    ("PNG", {}), ("GIF", {}), ("JPEG", {}), ("JPEG", {"progressive": True}), ("WEBP", {}), ("WEBP", {"lossless": True}),
    ("WEBP", {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"}),
])  # fmt: skip
def test_the_size_is_read_from_the_file_head(name, options):
    data = file(name, 300, 20, **options)
    assert image_size(data) == (300, 20)
    cut = data[: 9 if name == "GIF" else 12]
    assert image_size(cut) is None, "a cut file is no reason to fail"
    assert image_media_type(cut) == f"image/{name.lower()}"


def test_paths_are_read_and_strings_are_texts(tmp_path):
    path = tmp_path / "cat.jpg"  # a wrong ending does no harm
    path.write_bytes(file("PNG"))
    assert image_part(path)["media_type"] == "image/png"
    assert image_part({"type": "image", "path": str(path)}) == image_part(path)
    assert as_messages(str(path))[0].content == str(path)
    with path.open("rb") as stream:
        assert image_part(stream) == image_part(path)


def test_figures_axes_and_pil_images():
    width, height = opened(image_part(figure())).size
    assert 300 < width < 400  # its wide margins are cut off, as notebooks do
    assert 200 < height < 300
    assert opened(image_part(figure().axes[0])).size == (width, height)
    assert opened(image_part(picture())).size == (30, 20)
    assert opened(image_part(picture(4000, 1000, "CMYK"))).size == (1568, 392)


def test_a_buffer_is_read_from_its_beginning():
    buffer = io.BytesIO()
    figure().savefig(buffer)
    assert buffer.read() == b""
    assert image_part(buffer)["media_type"] == "image/png"


def test_too_large_files_are_scaled_down(monkeypatch):
    buffer = io.BytesIO()
    PIL.Image.merge("RGB", [PIL.Image.effect_noise((1600, 1600), 100) for _ in range(3)]).save(buffer, format="PNG")
    large = buffer.getvalue()
    assert len(large) > images.MAX_BYTES
    part = image_part(large)
    assert part["media_type"] == "image/jpeg", "as PNG it would be too large again"
    assert len(base64.b64decode(part["data"])) < images.MAX_BYTES
    assert opened(part).size == (1568, 1568)
    wide = image_part(file("PNG", 9000, 10))
    assert opened(wide).size == (1568, 2)
    for module in ("PIL", "PIL.Image", "PIL.ImageOps"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        MissingDependencyError, match=r"1600x1600 png, \d+\.\d MB.*pip install pillow, or give a smaller"
    ):
        image_part(large)


def test_scaling_down_a_photo_keeps_its_orientation():
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # turn right
    part = image_part(file("JPEG", 9000, 90, exif=exif))
    assert opened(part).size[0] < opened(part).size[1]


@pytest.mark.parametrize(("value", "says"), [
    (b"", "The bytes value is empty"),
    (b"PK\x03\x04 abc", r"b'PK.* abc'. Give PNG, JPEG, GIF or WebP"),
    (b"<svg xmlns='...'>", "not in a format that models accept"),
    (io.StringIO("text"), "not in a format that models accept"),
    (5, r"can't hold 5 \(type int\). Give a text, a matplotlib figure"),
    ({"type": "image"}, "Give a text, a matplotlib figure"),
    ({"text": "no type"}, "Give a text, a matplotlib figure"),
    ({"type": "image", "url": "cat.png"}, r"got 'cat.png'. For a file, pass pathlib.Path\('cat.png'\)"),
    ({"type": "image", "data": "bm90aGluZw=="}, "not in a format that models accept"),
    ({"type": "image", "media_type": "image/png", "data": "bm90aGluZw=="}, "not in a format that models accept"),
    ({"type": "image", "path": "/no/such/cat.png"}, "The file '/no/such/cat.png' can't be read: No such file"),
    ({"type": "image", "path": "."}, "can't be read: Is a directory.*The current folder is"),
])  # fmt: skip
def test_errors_name_what_is_not_an_image(value, says):
    with pytest.raises(ConfigurationError, match=says):
        content_parts(["look", value])


def test_the_error_for_a_broken_large_file():
    with pytest.raises(ConfigurationError, match=r"too large to send, and can't be opened: .*Give a complete"):
        image_part(file("PNG", 9000, 9)[:60])


def test_parts():
    url = {"type": "image", "url": "https://example.org/cat.png"}
    png = image_part(file())
    assert content_parts([url, {"type": "text", "text": "a"}, {"type": "input_audio", "more": 1}]) == [
        url, {"type": "text", "text": "a"}, {"type": "input_audio", "more": 1},
    ]  # fmt: skip
    assert image_part({"type": "image", "url": f"data:image/jpeg;base64,{png['data']}"}) == png, "by its first bytes"
    assert image_part({"type": "image", "data": png["data"]}) == png
    assert image_part({"type": "image", "media_type": "image/jpeg", "data": png["data"]}) == png
    heic = {"type": "image", "media_type": "image/heic", "data": "AAAA"}
    assert image_part(heic) == heic, "some vendors take more formats"
    assert image_part({"type": "image", "data": file()}) == png


def test_accepted_messages_with_images():
    png = image_part(file())
    text = {"type": "text", "text": "What is this?"}
    for said in (["What is this?", file()], ("What is this?", file()), iter([text, png])):
        assert as_messages(said) == [LLMMessage("user", [text, png])]
    assert as_messages(["a", "b"]) == [LLMMessage("user", content_parts(["a", "b"]))]
    for alone in (file(), png, io.BytesIO(file()), Image(file(), "image/png")):
        assert as_messages(alone) == [LLMMessage("user", [png])]
    assert as_messages({"role": "user", "content": ["What is this?", file()]}) == [LLMMessage("user", [text, png])]
    assert as_messages([{"role": "user", "content": file()}]) == [LLMMessage("user", [png])]
    ready = LLMMessage("user", [text, png])
    assert as_messages([ready])[0] is ready
    assert as_messages([LLMMessage("user", ["What is this?", file()])]) == [ready]
    assert as_messages([]) == []


@pytest.mark.parametrize("value", [5, {1, 2}, [["nested"]]])
def test_rejected_messages(value):
    with pytest.raises(ConfigurationError, match="can't hold"):
        as_messages(value)


def test_a_dataframe_is_not_a_list_of_its_columns():
    import pandas as pd

    with pytest.raises(ConfigurationError, match="type DataFrame"):
        as_messages(pd.DataFrame({"a": [1]}))


def test_images_are_appended_and_messages_replace():
    context = ContextManager()
    context.add_input("first")
    context.add_input(["What is this?", file()])
    context.add_input(io.BytesIO(file()))
    assert [m.role for m in context.messages] == ["user"] * 3
    context.add_input([{"role": "user", "content": ["new", file()]}])
    assert len(context.messages) == 1


def test_messages_with_images_are_plain_data():
    (message,) = as_messages(["What is this?", figure()])
    assert pickle.loads(pickle.dumps(message)) == message
    assert LLMMessage.from_dict(json.loads(json.dumps(message.to_dict()))) == message


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
    assert len(repr(Image(b"GIF89a", "image/gif"))) < 40


def test_the_bytes_decide_the_media_type_of_a_part():
    claims = {"type": "image", "media_type": "image/png"}
    assert Image.from_part({**claims, "data": base64.b64encode(file("GIF")).decode()}).media_type == "image/gif"
    for data in (base64.b64encode(b"<svg onload=alert(1)>").decode(), "a", "", None, 5):
        assert Image.from_part({**claims, "data": data}) is None
    content = [{**claims, "data": "a"}, {"type": "text", "text": "x"}, image_part(file())]
    assert [image.size for image in images_in(content)] == [(30, 20)]
    assert content_as_text(content) == "[image: image/png]\nx\n[image: 30x20 png]"
