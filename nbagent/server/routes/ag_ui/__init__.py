"""AG-UI, the protocol of chat front ends such as CopilotKit: `POST /ag-ui`."""
