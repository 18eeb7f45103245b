-- wrk: sixteen requests in one write, again and again.
init = function()
  local requests = {}
  for i = 1, 16 do requests[i] = wrk.format() end
  pipeline = table.concat(requests)
end
request = function() return pipeline end
