-- For wrk: posts the lines of a file in turn, for answers of a media type, and ends with the numbers as a line of JSON.
-- refused: answers with a status of 400 and more, which errors has too.
local bodies, turn = {}, 0

function init(args)
   local headers = { ["content-type"] = "application/json", ["accept"] = args[2] }
   for line in io.lines(args[1]) do
      bodies[#bodies + 1] = wrk.format("POST", nil, headers, line)
   end
end

function request()
   turn = turn % #bodies + 1
   return bodies[turn]
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format(
      '{"requests": %d, "seconds": %f, "p50": %f, "p99": %f, "refused": %d, "errors": %d}\n',
      summary.requests, summary.duration / 1e6,
      latency:percentile(50) / 1e6, latency:percentile(99) / 1e6,
      errors.status,
      errors.connect + errors.read + errors.write + errors.status + errors.timeout
   ))
end
