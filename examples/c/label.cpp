// Names the shape in a picture, as the first command of the README does, in C++17: handles that destroy themselves, failures
// as exceptions, and a callback when the run has ended.
//
//   c++ -std=c++17 label.cpp $(pkg-config --cflags --libs polychip) -pthread -o label
//   ./label examples/shapes/shapes.onnx examples/shapes/star.ppm examples/shapes/labels.txt

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <polychip.h>

#include "ppm.h"

namespace {

// A failure that throws itself.
struct Failure {
    polychip_failure record{};

    Failure() { record.struct_size = sizeof record; }

    void check(polychip_status_t status) const
    {
        if (status != POLYCHIP_OK) {
            throw std::runtime_error(std::string(polychip_status_text(status)) + ": " + record.message);
        }
    }
};

// A handle that is destroyed with its scope.
template <polychip_status_t (*Destroy)(uint64_t, polychip_failure *)> class Handle {
public:
    // `make` gets a place for the handle and one for the failure
    template <typename Make> explicit Handle(Make make)
    {
        Failure failure;
        failure.check(make(&value_, &failure.record));
    }

    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;
    ~Handle() { Destroy(value_, nullptr); }

    operator uint64_t() const { return value_; }

private:
    uint64_t value_ = 0;
};

using Runtime = Handle<polychip_runtime_destroy>;
using Model = Handle<polychip_model_destroy>;
using Session = Handle<polychip_session_destroy>;
using Tensor = Handle<polychip_tensor_destroy>;
using Run = Handle<polychip_run_destroy>;
using Text = Handle<polychip_text_destroy>;

std::vector<std::string> lines(const char *path)
{
    std::ifstream file(path);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) {
        all.push_back(line);
    }
    return all;
}

void name(const char *model_path, const char *picture_path, const char *labels_path)
{
    unsigned width = 0, height = 0;
    std::unique_ptr<float, decltype(&std::free)> planes(read_ppm(picture_path, &width, &height), &std::free);
    if (!planes) {
        throw std::runtime_error(std::string(picture_path) + " is no PPM picture of 8 bits");
    }

    Failure failure;
    Runtime runtime([](auto *out, auto *why) { return polychip_runtime_create(0, out, why); });
    Model model([&](auto *out, auto *why) { return polychip_model_load(runtime, model_path, out, why); });
    Session session([&](auto *out, auto *why) { return polychip_session_create(runtime, model, 0, out, why); });

    // both are lent: the run reads the picture and writes the probabilities where they lie, and `planes` outlives it
    const std::vector<uint64_t> shape{1, 3, height, width};
    polychip_tensor_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = POLYCHIP_DTYPE_F32;
    desc.rank = static_cast<uint32_t>(shape.size());
    desc.shape = shape.data();
    Tensor image([&](auto *out, auto *why) {
        const uint64_t bytes = uint64_t{width} * height * 3 * sizeof(float);
        return polychip_tensor_lend(&desc, planes.get(), bytes, nullptr, nullptr, out, why);
    });
    polychip_tensor_info output{};
    output.struct_size = sizeof output;
    failure.check(polychip_session_output(session, 0, &output, &failure.record));
    std::vector<float> probabilities(output.bytes / sizeof(float));
    polychip_tensor_desc row{};
    row.struct_size = sizeof row;
    row.dtype = output.dtype;
    row.rank = output.rank;
    row.shape = output.shape;
    Tensor answer([&](auto *out, auto *why) {
        return polychip_tensor_lend(&row, probabilities.data(), output.bytes, nullptr, nullptr, out, why);
    });

    // the callback must not throw, and its type says so
    std::promise<polychip_status_t> ended;
    polychip_run_options options{};
    options.struct_size = sizeof options;
    options.user = &ended;
    options.on_done = [](void *user, polychip_status_t status) noexcept {
        static_cast<std::promise<polychip_status_t> *>(user)->set_value(status);
    };
    const uint64_t inputs[] = {image}, outputs[] = {answer};
    Run run([&](auto *out, auto *why) {
        return polychip_session_submit(session, inputs, 1, outputs, 1, &options, out, why);
    });
    ended.get_future().get();
    // its words, where it failed
    failure.check(polychip_run_wait(run, 0, &failure.record));

    const auto best = std::max_element(probabilities.begin(), probabilities.end());
    const auto labels = lines(labels_path);
    const auto index = static_cast<std::size_t>(best - probabilities.begin());
    std::printf("%s: probability %.4f\n", labels.at(index).c_str(), static_cast<double>(*best));

    Text report([&](auto *out, auto *why) {
        return polychip_session_report(session, POLYCHIP_FORMAT_JSON, out, why);
    });
    const char *words = nullptr;
    failure.check(polychip_text_get(report, &words, nullptr, &failure.record));
    std::printf("\n%s\n", words);
}

} // namespace

int main(int count, char **arguments)
{
    if (count != 4) {
        std::fprintf(stderr, "usage: label MODEL.onnx PICTURE.ppm LABELS.txt\n");
        return 2;
    }
    try {
        name(arguments[1], arguments[2], arguments[3]);
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
