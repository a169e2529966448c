#include "library.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace metal_host {

namespace {

// Read by static initialisers of the object being loaded.
std::map<uint32_t, double> g_constants;

}  // namespace

double function_constant(uint32_t index) {
    const auto found = g_constants.find(index);
    return found == g_constants.end() ? 0 : found->second;
}

bool function_constant_defined(uint32_t index) {
    return g_constants.contains(index);
}

LoadedLibrary::LoadedLibrary(const std::string& path, const std::map<uint32_t, double>& constants) {
    // The loader gives each file one set of globals: a copy under another name gets globals of its own.
    std::ifstream file(path, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    const int copy = memfd_create("metal_host", 0);
    if (!file || copy < 0 || write(copy, content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
        throw std::runtime_error("cannot copy " + path);
    }
    g_constants = constants;
    void* handle = dlopen(("/proc/self/fd/" + std::to_string(copy)).c_str(), RTLD_NOW | RTLD_LOCAL);
    g_constants.clear();
    if (handle == nullptr) throw std::runtime_error(dlerror());
    for (auto file = static_cast<const Library* const*>(dlsym(handle, "metal_host_libraries")); *file != nullptr;
         ++file) {
        for (uint32_t i = 0; i < (*file)->n_kernels; ++i) {
            const Kernel& kernel = (*file)->kernels[i];
            if (!kernels_.emplace(kernel.name, Entry{&kernel, *file}).second) {
                throw std::runtime_error(path + " has two kernels named " + kernel.name);
            }
        }
    }
}

const LoadedLibrary& LoadedLibrary::load(const std::string& path, const std::map<uint32_t, double>& constants) {
    static std::map<std::pair<std::string, std::map<uint32_t, double>>, std::unique_ptr<LoadedLibrary>> loaded;
    std::unique_ptr<LoadedLibrary>& library = loaded[{path, constants}];
    if (library == nullptr) library.reset(new LoadedLibrary(path, constants));
    return *library;
}

const LoadedLibrary::Entry& LoadedLibrary::find(const std::string& kernel) const {
    const auto found = kernels_.find(kernel);
    if (found == kernels_.end()) throw std::runtime_error("no Metal kernel is named " + kernel);
    return found->second;
}

}  // namespace metal_host
