"""Files that are pasted into a page or dropped on it."""

import base64
import io

from PIL import Image

#: Pastes or drops files.
GIVE = """(box, [kind, files]) => {
  const data = new DataTransfer();
  for (const [name, type, base64] of files) {
    const bytes = Uint8Array.from(atob(base64), each => each.charCodeAt(0));
    data.items.add(new File([bytes], name, {type}));
  }
  const held = kind == "paste" ? {clipboardData: data} : {dataTransfer: data};
  const Kind = kind == "paste" ? ClipboardEvent : DragEvent;
  box.dispatchEvent(new Kind(kind, {...held, bubbles: true, cancelable: true}));
}"""


def png(width, height):
    file = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(file, "PNG")
    return file.getvalue()


def give(box, kind, *files):
    box.evaluate(
        GIVE, [kind, [[name, media_type, base64.b64encode(data).decode()] for name, media_type, data in files]]
    )
