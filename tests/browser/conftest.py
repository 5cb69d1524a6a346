"""`--screenshots FOLDER` keeps pictures of what the browser tests saw."""


def pytest_addoption(parser):
    parser.addoption("--screenshots", metavar="FOLDER", help="keep screenshots of the browser tests here")
