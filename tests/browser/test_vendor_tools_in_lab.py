"""What a vendor's own tools did, in a cell and a panel of real JupyterLab: links to what is cited, and images."""

import base64
import io

import pytest
from PIL import Image
from playwright.sync_api import expect
from support.lab import BEGIN
from support.loopback import Answer, Loopback, served
from support.vendor_answers import openai_worked

pytestmark = pytest.mark.browser

OWN = """from nbagent import ChatPanel, create_provider
model = create_provider("openai:gpt-5.6-terra", api_key="test-key", base_url=url, api="responses")
agent = Agent(model, tools=["web_search", "code_execution", "image_generation"])"""
CODE = "code_execution(code=\"print('<b>42</b>')\\nplot()\")"
CALLS = ['web_search(query="stable ruby")', CODE, 'image_generation(prompt="A <i>Gentoo</i> that codes")']


def png(colour):
    file = io.BytesIO()
    Image.new("RGB", (120, 40), colour).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def test_links_and_images_of_a_vendors_own_tools(lab):
    with served(Loopback()) as vendor:
        vendor.answers = [Answer(openai_worked(png("teal"), png("gold")))]
        setup = f"url = {vendor.url + '/v1'!r}\n{BEGIN}{OWN}"
        page = lab.run("own.ipynb", [setup, "%%agent\nWhich Ruby is stable?", "ChatPanel(agent)"])
        page.get_by_placeholder("Shift-Enter").wait_for()
        for shown in (page.locator(".jp-Cell").nth(1), page.locator(".nbagent-panel")):
            expect(shown.locator("summary > code")).to_have_text(CALLS)
            links = shown.locator("a[rel~=noopener]")
            expect(links).to_have_text(["[1]", "[2]", "Download Ruby", 'Ruby "4.0.6" <b>'])
            assert links.nth(1).get_attribute("href") == "https://example.org/news?a=1&b=(2)"
            expect(shown.locator(".nbagent-sources").first).to_contain_text("[3] <img src=x onerror=alert(1)>")
            expect(shown.locator(".nbagent img")).to_have_count(2)
            for image in shown.locator(".nbagent img").all():
                expect(image).to_have_js_property("naturalWidth", 120)
        code = page.locator(".jp-Cell").nth(1).locator("details", has_text="code_execution")
        code.locator("summary").click()
        expect(code.locator("pre").last).to_contain_text("<b>42</b>")
        expect(code).not_to_contain_text("base64")
