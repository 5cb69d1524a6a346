"""All routes below `/v1`."""

from fastapi import APIRouter
from openai.types import ErrorObject
from pydantic import BaseModel

from nbagent.server.routes.openai import chat_completions, conversations, models, responses


class ErrorBody(BaseModel):
    """A failed request."""

    error: ErrorObject


router = APIRouter(tags=["OpenAI"], responses={"4XX": {"model": ErrorBody}, "5XX": {"model": ErrorBody}})
for module in (models, chat_completions, responses, conversations):
    router.include_router(module.router)
