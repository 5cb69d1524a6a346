"""All addresses below `/v1`."""

from fastapi import APIRouter
from pydantic import BaseModel

from nbagent.server.routes.openai import completions, models, responses


class ErrorFields(BaseModel):
    """What is wrong: `param` is the field of the request."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """A failed request."""

    error: ErrorFields


router = APIRouter(tags=["OpenAI"], responses={"4XX": {"model": ErrorBody}, "5XX": {"model": ErrorBody}})
for each in (models, completions, responses):
    router.include_router(each.router)
