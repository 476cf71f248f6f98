-- prony lab: waits as a server does that asks somebody else.
core.register_action("delay", { "http-req" }, function()
    core.msleep(@DELAY_MS@)
end)
